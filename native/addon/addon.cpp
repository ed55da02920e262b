// The addon: a checked program, an engine to run it, and what is known of libtorch.
#include <napi.h>

#include "addon/engine.h"
#include "addon/errors.h"
#include "addon/program.h"
#include "core/cpus.h"
#include "core/version.h"

namespace tokengrad {
namespace {

Napi::Object init(Napi::Env env, Napi::Object exports) {
  return guarded(env, [&] {
    check_version(loaded_version(), compiled_version());
    exports.Set("libtorchVersion", loaded_version());
    exports.Set("compiledVersion", compiled_version());
    exports.Set("availableCpus", available_cpus());
    exports.Set("compile", Napi::Function::New<compile>(env, "compile"));
    exports.Set("Engine", Engine::define(env));
    return exports;
  });
}

NODE_API_MODULE(tokengrad, init)

}  // namespace
}  // namespace tokengrad
