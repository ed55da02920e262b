// The addon: a checked program, an engine to run it, and what is known of libtorch.
#include <napi.h>

#include <set>

#include "addon/engine.h"
#include "addon/errors.h"
#include "addon/program.h"
#include "core/cpus.h"
#include "core/version.h"

namespace tokengrad {
namespace {

/// `process.exit` and uncaught errors end the process without ending its environment. Threads must
/// be off libtorch by then, so they are ended first, by the one event that comes before.
void end_threads_before_exit(Napi::Env env) {
  const auto process = env.Global().Get("process").As<Napi::Object>();
  const auto end = [](const Napi::CallbackInfo& info) {
    const std::set<Engine*> engines = info.Env().GetInstanceData<Environment>()->engines;
    for (Engine* engine : engines) engine->close();
  };
  process.Get("prependListener")
      .As<Napi::Function>()
      .Call(process, {Napi::String::New(env, "exit"), Napi::Function::New(env, end)});
}

Napi::Object init(Napi::Env env, Napi::Object exports) {
  return guarded(env, [&] {
    check_version(loaded_version(), compiled_version());
    env.SetInstanceData(new Environment);
    end_threads_before_exit(env);
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
