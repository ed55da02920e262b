// Types of the values in a result buffer.
#include "core/dtype.h"

#include <bit>
#include <cmath>

namespace tokengrad {

size_t bytes_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return 4;
    case Dtype::kBfloat16:
      return 2;
    case Dtype::kFloat64:
      return 8;
  }
  return 0;
}

const char* name_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return "float32";
    case Dtype::kBfloat16:
      return "bfloat16";
    case Dtype::kFloat64:
      return "float64";
  }
  return "";
}

uint16_t to_bfloat16(double value) {
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  if (back == value || std::isnan(value)) return to_bfloat16(nearest);
  // Round to odd: cut towards zero and set the last bit. With 16 bits to spare, rounding again is
  // then exact.
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::abs(back) > std::abs(value)) --bits;
  return to_bfloat16(std::bit_cast<float>(bits | 1u));
}

}  // namespace tokengrad
