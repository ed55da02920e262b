// Reads a JavaScript value that nobody has checked, and remembers its path for the message if it is
// not right.
#pragma once

#include <napi.h>

#include <cstdint>
#include <span>
#include <string>

#include "core/request.h"

namespace tokengrad {

/// All methods throw `ERR_REQUEST` with the path, what was expected and what came.
class Reader {
 public:
  Reader(Napi::Value value, std::string path) : value_(value), path_(std::move(path)) {}

  /// A property of an object.
  Reader operator[](const char* name) const;
  /// An element of an array.
  Reader operator[](uint32_t index) const;
  uint32_t length() const;

  double number() const;
  /// A whole number from `min` to `max`.
  uint32_t whole(uint32_t min, uint32_t max) const;
  std::string text() const;
  /// An object's own keys.
  std::vector<std::string> keys() const;

  /// These give memory that JavaScript owns. It stays while the value is referenced, unless its
  /// buffer is transferred.
  std::span<const uint32_t> uint32s() const;
  std::span<const int32_t> int32s() const;
  InputData floats() const;
  std::span<double> float64s() const;
  std::span<std::byte> bytes() const;

  /// Any typed array; `expected` is for the message.
  struct View {
    napi_typedarray_type type;
    size_t length;
    void* data;
  };
  View typed_array(const std::string& expected) const;

  Napi::Value value() const { return value_; }
  [[noreturn]] void refuse(const std::string& expected) const;

 private:
  Napi::Value value_;
  std::string path_;
};

}  // namespace tokengrad
