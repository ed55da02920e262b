// The shortest digits of many float32 numbers at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tokengrad {

inline constexpr size_t kFloatBlock = 64;

/// What `write_digits` needs of each number of a block.
struct FloatDigits {
  std::array<uint64_t, kFloatBlock> others;
  std::array<uint32_t, kFloatBlock> first;
  std::array<int32_t, kFloatBlock> leading;
};

/// Finds the digits of up to `kFloatBlock` numbers, given as their bits; the signs do not matter.
/// Of 0, subnormal and non-finite numbers it finds nothing of use.
using FindDigits = void (*)(const uint32_t* bits, size_t count, FloatDigits& digits);

/// One implementation for each kind of CPU.
namespace portable {
void find_digits(const uint32_t* bits, size_t count, FloatDigits& digits);
}
namespace avx2 {
void find_digits(const uint32_t* bits, size_t count, FloatDigits& digits);
}
namespace avx512 {
void find_digits(const uint32_t* bits, size_t count, FloatDigits& digits);
}

/// The best one for this CPU.
FindDigits find_digits();

}  // namespace tokengrad
