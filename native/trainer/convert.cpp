// Reading options and typed arrays, and making them.
#include "trainer/convert.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "trainer/errors.h"

namespace tokengrad::trainer {
namespace {

Napi::Object to_plain_object(const Napi::Value& value, const char* what) {
  if (!value.IsObject()) throw input_error(std::string(what) + ": expected an object");
  return value.As<Napi::Object>();
}

double get_number(const Napi::Object& object, const char* key) {
  const auto value = object.Get(key);
  if (!value.IsNumber()) throw input_error(std::string(key) + ": expected a number");
  return value.As<Napi::Number>().DoubleValue();
}

std::string get_text(const Napi::Object& object, const char* key) {
  const auto value = object.Get(key);
  if (!value.IsString()) throw input_error(std::string(key) + ": expected a string");
  return value.As<Napi::String>().Utf8Value();
}

uint64_t get_seed(const Napi::Object& object, const char* key) {
  const auto value = object.Get(key);
  if (!value.IsBigInt()) throw input_error(std::string(key) + ": expected a BigInt");
  bool lossless = false;
  return value.As<Napi::BigInt>().Uint64Value(&lossless);
}

template <class Array, class T>
std::vector<T> to_vector(const Napi::Value& value, const char* name, napi_typedarray_type type,
                         const char* expected) {
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != type) {
    throw input_error(std::string(name) + ": expected " + expected);
  }
  const auto array = value.As<Array>();
  return std::vector<T>(array.Data(), array.Data() + array.ElementLength());
}

std::vector<int32_t> get_ints(const Napi::Object& object, const char* key) {
  return to_vector<Napi::Int32Array, int32_t>(object.Get(key), key, napi_int32_array,
                                              "an Int32Array");
}

// One of a list of names, each standing for a value.
template <class T>
T get_choice(const Napi::Object& object, const char* key,
             std::initializer_list<std::pair<const char*, T>> choices) {
  const auto name = get_text(object, key);
  for (const auto& [known, value] : choices) {
    if (name == known) return value;
  }
  throw input_error(std::string(key) + ": unknown value \"" + name + "\"");
}

template <class Array, class T>
Napi::Value copy_out(Napi::Env env, const std::vector<T>& values) {
  auto array = Array::New(env, values.size());
  std::copy(values.begin(), values.end(), array.Data());
  return array;
}

}  // namespace

bool get_flag(const Napi::Object& object, const char* key) {
  const auto value = object.Get(key);
  if (!value.IsBoolean()) throw input_error(std::string(key) + ": expected true or false");
  return value.As<Napi::Boolean>();
}

int64_t get_integer(const Napi::Object& object, const char* key) {
  const double value = get_number(object, key);
  if (std::trunc(value) != value || std::abs(value) > 9007199254740991.0) {
    throw input_error(std::string(key) + ": expected a whole number");
  }
  return static_cast<int64_t>(value);
}

std::vector<double> to_doubles(const Napi::Value& value, const char* name) {
  return to_vector<Napi::Float64Array, double>(value, name, napi_float64_array, "a Float64Array");
}

ModelConfig to_config(const Napi::Value& value) {
  const auto object = to_plain_object(value, "config");
  ModelConfig config{get_integer(object, "layers"),
                     get_integer(object, "width"),
                     get_integer(object, "heads"),
                     get_integer(object, "context"),
                     get_integer(object, "vocabulary"),
                     get_seed(object, "seed"),
                     get_choice<at::ScalarType>(
                         object, "precision", {{"float32", at::kFloat}, {"float64", at::kDouble}})};
  config.check();
  return config;
}

Batch to_batch(const Napi::Value& value) {
  const auto object = to_plain_object(value, "batch");
  return {get_ints(object, "tokens"), get_ints(object, "targets"),
          to_doubles(object.Get("weights"), "weights"), get_ints(object, "offsets")};
}

LossConfig to_loss(const Napi::Value& value) {
  using Type = LossConfig::Type;
  using Aggregation = LossConfig::Aggregation;
  const auto object = to_plain_object(value, "loss");
  LossConfig loss;
  loss.type = get_choice<Type>(object, "type",
                               {{"cross_entropy", Type::kCrossEntropy},
                                {"importance_sampling", Type::kImportanceSampling},
                                {"ppo", Type::kPpo},
                                {"cispo", Type::kCispo},
                                {"grpo", Type::kGrpo},
                                {"dro", Type::kDro}});
  loss.clip_low = get_number(object, "clipLow");
  loss.clip_high = get_number(object, "clipHigh");
  loss.beta = get_number(object, "beta");
  loss.aggregation = get_choice<Aggregation>(object, "aggregation",
                                             {{"fixed_horizon", Aggregation::kFixedHorizon},
                                              {"token_mean", Aggregation::kTokenMean},
                                              {"sequence_mean", Aggregation::kSequenceMean}});
  loss.sequence_ratio = get_flag(object, "sequenceRatio");
  if (!(loss.clip_low <= loss.clip_high)) {
    throw input_error("clipLow, clipHigh: expected clipLow <= clipHigh");
  }
  return loss;
}

LossInputs to_loss_inputs(const Napi::Value& value) {
  const auto object = to_plain_object(value, "inputs");
  const auto optional = [&](const char* key) {
    return object.Has(key) ? to_doubles(object.Get(key), key) : std::vector<double>();
  };
  return {optional("sampled"), optional("advantages"), optional("reference")};
}

AdamParams to_adam(const Napi::Value& value) {
  const auto object = to_plain_object(value, "adam");
  return {get_number(object, "learningRate"), get_number(object, "beta1"),
          get_number(object, "beta2"),        get_number(object, "eps"),
          get_number(object, "weightDecay"),  get_number(object, "gradClipNorm")};
}

SampleRequest to_sample_request(const Napi::Value& value) {
  const auto object = to_plain_object(value, "request");
  const auto tokens = get_ints(object, "tokens");
  const auto offsets = get_ints(object, "offsets");
  SampleRequest request{
      {},
      get_integer(object, "samples"),
      get_integer(object, "maxTokens"),
      {get_number(object, "temperature"), get_number(object, "topP"), get_integer(object, "topK")},
      {},
      static_cast<int32_t>(get_integer(object, "endOfText")),
      get_seed(object, "seed")};
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    if (offsets[i] < 0 || offsets[i] > offsets[i + 1] ||
        static_cast<size_t>(offsets[i + 1]) > tokens.size()) {
      throw input_error("offsets: expected a rising list within the tokens");
    }
    request.prompts.emplace_back(tokens.begin() + offsets[i], tokens.begin() + offsets[i + 1]);
  }
  const auto stop = to_plain_object(object.Get("stop"), "stop");
  if (!stop.IsArray()) throw input_error("stop: expected an array of strings");
  for (uint32_t i = 0; i < stop.As<Napi::Array>().Length(); ++i) {
    const auto text = stop.Get(i);
    if (!text.IsString()) throw input_error("stop: expected an array of strings");
    request.stop.push_back(text.As<Napi::String>().Utf8Value());
  }
  return request;
}

SavedState to_saved_state(const Napi::Value& value, const ModelConfig& config) {
  const auto object = to_plain_object(value, "state");
  SavedState state{get_integer(object, "step"), {}};
  if (state.step < 0) throw input_error("step: expected at least 0");
  const auto parts = to_plain_object(object.Get("parts"), "parts");
  if (!parts.IsArray()) throw input_error("parts: expected an array of Uint8Arrays");
  for (uint32_t i = 0; i < parts.As<Napi::Array>().Length(); ++i) {
    const auto part = parts.Get(i);
    if (!part.IsTypedArray() || part.As<Napi::TypedArray>().TypedArrayType() != napi_uint8_array) {
      throw input_error("parts: expected an array of Uint8Arrays");
    }
    const auto bytes = part.As<Napi::Uint8Array>();
    const auto size = c10::elementSize(config.precision);
    auto tensor = at::empty({static_cast<int64_t>(bytes.ByteLength() / size)}, config.precision);
    std::memcpy(tensor.mutable_data_ptr(), bytes.Data(), tensor.nbytes());
    state.parts.push_back(std::move(tensor));
  }
  return state;
}

Napi::Value to_array(Napi::Env env, const std::vector<double>& values) {
  return copy_out<Napi::Float64Array>(env, values);
}

Napi::Value to_array(Napi::Env env, const std::vector<int32_t>& values) {
  return copy_out<Napi::Int32Array>(env, values);
}

Napi::Value to_object(Napi::Env env, const SavedState& state) {
  auto object = Napi::Object::New(env);
  object.Set("step", static_cast<double>(state.step));
  auto parts = Napi::Array::New(env, state.parts.size());
  for (uint32_t i = 0; i < state.parts.size(); ++i) {
    auto bytes = Napi::Uint8Array::New(env, state.parts[i].nbytes());
    std::memcpy(bytes.Data(), state.parts[i].const_data_ptr(), state.parts[i].nbytes());
    parts.Set(i, bytes);
  }
  object.Set("parts", parts);
  return object;
}

}  // namespace tokengrad::trainer
