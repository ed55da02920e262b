// Reads a JavaScript value that nobody has checked.
#include "addon/reader.h"

#include <cmath>

#include "core/error.h"

namespace tokengrad {
namespace {

std::string describe(Napi::Value value) {
  switch (value.Type()) {
    case napi_undefined:
      return "undefined";
    case napi_null:
      return "null";
    case napi_boolean:
      return "a boolean";
    case napi_number:
      return std::to_string(value.As<Napi::Number>().DoubleValue());
    case napi_string:
      return std::string("\"").append(value.As<Napi::String>().Utf8Value()).append("\"");
    case napi_symbol:
      return "a symbol";
    case napi_function:
      return "a function";
    case napi_bigint:
      return "a bigint";
    default:
      return "an object of another kind";
  }
}

/// Memory that JavaScript could shrink or share under a running job is not accepted.
bool is_fixed(Napi::Value buffer) {
  return buffer.IsArrayBuffer() && !buffer.As<Napi::Object>().Get("resizable").ToBoolean();
}

}  // namespace

void Reader::refuse(const std::string& expected) const {
  throw Error("ERR_REQUEST", path_ + ": expected " + expected + ", got " + describe(value_));
}

Reader Reader::operator[](const char* name) const {
  if (!value_.IsObject()) refuse("an object");
  return {value_.As<Napi::Object>().Get(name), path_ + "." + name};
}

Reader Reader::operator[](uint32_t index) const {
  if (!value_.IsArray()) refuse("an array");
  return {value_.As<Napi::Array>().Get(index), path_ + "[" + std::to_string(index) + "]"};
}

uint32_t Reader::length() const {
  if (!value_.IsArray()) refuse("an array");
  return value_.As<Napi::Array>().Length();
}

double Reader::number() const {
  if (!value_.IsNumber()) refuse("a number");
  return value_.As<Napi::Number>().DoubleValue();
}

uint32_t Reader::whole(uint32_t min, uint32_t max) const {
  const double given = value_.IsNumber() ? number() : std::nan("");
  if (!(given >= min && given <= max) || std::trunc(given) != given) {
    refuse("a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return static_cast<uint32_t>(given);
}

std::string Reader::text() const {
  if (!value_.IsString()) refuse("a string");
  return value_.As<Napi::String>().Utf8Value();
}

std::vector<std::string> Reader::keys() const {
  if (!value_.IsObject()) refuse("an object");
  const Napi::Array names = value_.As<Napi::Object>().GetPropertyNames();
  std::vector<std::string> keys;
  for (uint32_t i = 0; i < names.Length(); ++i) keys.push_back(names.Get(i).ToString().Utf8Value());
  return keys;
}

Reader::View Reader::typed_array(const std::string& expected) const {
  if (!value_.IsTypedArray()) refuse(expected);
  View view;
  napi_value buffer;
  size_t offset;
  const napi_status status = napi_get_typedarray_info(value_.Env(), value_, &view.type,
                                                      &view.length, &view.data, &buffer, &offset);
  if (status != napi_ok || !is_fixed(Napi::Value(value_.Env(), buffer))) {
    refuse(expected + " over a buffer of fixed size");
  }
  return view;
}

std::span<const uint32_t> Reader::uint32s() const {
  const View view = typed_array("a Uint32Array");
  if (view.type != napi_uint32_array) refuse("a Uint32Array");
  return {static_cast<const uint32_t*>(view.data), view.length};
}

std::span<const int32_t> Reader::int32s() const {
  const View view = typed_array("an Int32Array");
  if (view.type != napi_int32_array) refuse("an Int32Array");
  return {static_cast<const int32_t*>(view.data), view.length};
}

InputData Reader::floats() const {
  const View view = typed_array("a Float32Array or a Float64Array");
  const int64_t size = static_cast<int64_t>(view.length);
  if (view.type == napi_float32_array) return {view.data, size, at::kFloat};
  if (view.type == napi_float64_array) return {view.data, size, at::kDouble};
  refuse("a Float32Array or a Float64Array");
}

std::span<double> Reader::float64s() const {
  const View view = typed_array("a Float64Array");
  if (view.type != napi_float64_array) refuse("a Float64Array");
  return {static_cast<double*>(view.data), view.length};
}

std::span<std::byte> Reader::bytes() const {
  if (!is_fixed(value_)) refuse("an ArrayBuffer of fixed size");
  auto buffer = value_.As<Napi::ArrayBuffer>();
  return {static_cast<std::byte*>(buffer.Data()), buffer.ByteLength()};
}

}  // namespace tokengrad
