// Errors on their way into JavaScript, the same for both addons.
#pragma once

#include <napi.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/error.h"

namespace tokengrad {

inline Napi::Value fact_to_js(Napi::Env env, const Error::Fact& fact) {
  if (const auto* number = std::get_if<double>(&fact)) return Napi::Number::New(env, *number);
  if (const auto* text = std::get_if<std::string>(&fact)) return Napi::String::New(env, *text);
  const auto& numbers = std::get<std::vector<double>>(fact);
  Napi::Array array = Napi::Array::New(env, numbers.size());
  for (uint32_t i = 0; i < numbers.size(); ++i) array.Set(i, Napi::Number::New(env, numbers[i]));
  return array;
}

/// An `Error` object with the property `code` and one property per fact.
inline Napi::Error to_js(Napi::Env env, const Error& error) {
  Napi::Error result = Napi::Error::New(env, error.what());
  result.Set("code", Napi::String::New(env, error.code()));
  for (const auto& [name, fact] : error.facts()) result.Set(name, fact_to_js(env, fact));
  return result;
}

/// Runs an entry point of an addon: whatever it throws arrives in JavaScript as an `Error` with a
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
