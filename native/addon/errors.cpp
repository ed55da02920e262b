// Errors on their way into JavaScript.
#include "addon/errors.h"

namespace tokengrad {
namespace {

Napi::Value to_js(Napi::Env env, const Error::Fact& fact) {
  if (const auto* number = std::get_if<double>(&fact)) return Napi::Number::New(env, *number);
  if (const auto* text = std::get_if<std::string>(&fact)) return Napi::String::New(env, *text);
  const auto& numbers = std::get<std::vector<double>>(fact);
  Napi::Array array = Napi::Array::New(env, numbers.size());
  for (uint32_t i = 0; i < numbers.size(); ++i) array.Set(i, Napi::Number::New(env, numbers[i]));
  return array;
}

}  // namespace

Napi::Error to_js(Napi::Env env, const Error& error) {
  Napi::Error result = Napi::Error::New(env, error.what());
  result.Set("code", Napi::String::New(env, error.code()));
  for (const auto& [name, fact] : error.facts()) result.Set(name, to_js(env, fact));
  return result;
}

}  // namespace tokengrad
