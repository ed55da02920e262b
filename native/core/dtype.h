// Types of the values in a result buffer.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tokengrad {

/// Types of the values in a result buffer.
enum class Dtype : uint8_t { kFloat32, kBfloat16, kFloat64 };

/// Bytes of one value.
size_t bytes_of(Dtype dtype);
const char* name_of(Dtype dtype);

/// The bits of the bfloat16 nearest to a value, ties to even. NaN becomes 0x7FC0; what is too
/// large, an infinity. Always inline: vector kernels compiled for one kind of CPU use it too.
[[gnu::always_inline]] inline uint16_t to_bfloat16(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  // Half a step, less one where the last bit kept is 0: a tie then stays, and otherwise carries
  // over.
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  return static_cast<uint16_t>(is_nan ? 0x7FC0u : rounded);
}
/// Rounds once: not by way of float32.
uint16_t to_bfloat16(double value);

/// Stores `count` values of type T as a dtype. Whether all that was stored is finite.
template <typename T>
using Store = bool (*)(const T* values, int64_t count, std::byte* out);

}  // namespace tokengrad
