// The end of a process, the same for both addons.
#pragma once

#include <napi.h>

namespace tokengrad {

/// Calls `end` before the process exits. `process.exit` and uncaught errors end the process without
/// ending its environment; threads must be off libtorch by then, so they are ended at the one event
/// that comes before.
template <typename End>
void before_exit(Napi::Env env, const End& end) {
  const auto process = env.Global().Get("process").As<Napi::Object>();
  const auto listener = [end](const Napi::CallbackInfo&) { end(); };
  process.Get("prependListener")
      .As<Napi::Function>()
      .Call(process, {Napi::String::New(env, "exit"), Napi::Function::New(env, listener)});
}

}  // namespace tokengrad
