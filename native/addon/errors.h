// Errors on their way into JavaScript.
#pragma once

#include <napi.h>

#include <type_traits>

#include "core/error.h"

namespace tokengrad {

/// An `Error` object with the property `code` and one property per fact.
Napi::Error to_js(Napi::Env env, const Error& error);

/// Runs an entry point of the addon: whatever it throws arrives in JavaScript as an `Error` with a
/// code.
template <typename Body>
auto guarded(Napi::Env env, const Body& body) {
  try {
    return body();
  } catch (const Napi::Error&) {
    throw;
  } catch (...) {
    throw to_js(env, current_error());
  }
}

}  // namespace tokengrad
