// The addon: a checked program, an engine to run it, and what is known of libtorch.
#include <napi.h>

#include "addon/engine.h"
#include "addon/program.h"
#include "addon/wire.h"
#include "core/counted.h"
#include "core/cpus.h"
#include "core/version.h"
#include "napi/errors.h"
#include "napi/exit.h"

namespace tokengrad {
namespace {

/// `liveObjects()`: what of the core is alive in this process, on all of its threads.
Napi::Value live_objects(const Napi::CallbackInfo& info) {
  Napi::Object counts = Napi::Object::New(info.Env());
  counts.Set("engines", Counted<Worker>::live());
  counts.Set("programs", Counted<Compiled>::live());
  counts.Set("runs", Counted<Job>::live());
  return counts;
}

Napi::Object init(Napi::Env env, Napi::Object exports) {
  return guarded(env, [&] {
    check_version(loaded_version(), compiled_version());
    env.SetInstanceData(new Environment);
    before_exit(env, [env] {
      const Environment open = *env.GetInstanceData<Environment>();
      for (Engine* engine : open.engines) engine->close();
      for (Wire* wire : open.wires) wire->close();
    });
    exports.Set("libtorchVersion", loaded_version());
    exports.Set("availableCpus", available_cpus());
    exports.Set("compile", Napi::Function::New<compile>(env, "compile"));
    exports.Set("lacking", Napi::Function::New<lacking>(env, "lacking"));
    exports.Set("liveObjects", Napi::Function::New<live_objects>(env, "liveObjects"));
    exports.Set("Engine", Engine::define(env));
    exports.Set("Wire", Wire::define(env));
    return exports;
  });
}

NODE_API_MODULE(tokengrad, init)

}  // namespace
}  // namespace tokengrad
