// The loop behind `find_digits`, for a compiler to vectorise: each file that includes it has flags
// of its own, and the namespace of its kind of CPU in TOKENGRAD_CPU.
#include "core/wire/decimal_text.h"
#include "core/wire/float_digits.h"

namespace tokengrad::TOKENGRAD_CPU {

namespace {

inline int exponent_of(uint32_t bits) { return static_cast<int>(bits >> 23 & 0xff); }

/// 1 where the fraction is 0 and the exponent above the least one; without a comparison, which the
/// compiler would make a jump of.
inline uint32_t is_power_of_two(uint32_t bits) {
  return ((bits & 0x7fffff) - 1) >> 31 & static_cast<uint32_t>(1 - exponent_of(bits)) >> 31;
}

}  // namespace

void find_digits(const uint32_t* __restrict bits, size_t count, FloatDigits& __restrict digits) {
  // A loop of its own: looking something up is what keeps the other one from being vectorised.
  uint64_t powers[kFloatBlock];
  for (size_t i = 0; i < count; ++i) {
    powers[i] = power_of_ten(-last_exponent(exponent_of(bits[i]) - 150, is_power_of_two(bits[i])));
  }
  for (size_t i = 0; i < count; ++i) {
    const Decimal decimal =
        shortest_decimal<Halves::kEven>((bits[i] & 0x7fffff) | 0x800000, exponent_of(bits[i]) - 150,
                                        is_power_of_two(bits[i]), powers[i]);
    // Normal numbers have 7 to 9 digits here.
    const uint32_t eight = 1 - detail::less(decimal.digits, 10'000'000);
    const uint32_t nine = 1 - detail::less(decimal.digits, 100'000'000);
    const uint32_t number = decimal.digits * (100 - 90 * eight - 9 * nine);
    const uint32_t first = number / 100'000'000;
    digits.first[i] = first;
    digits.others[i] = detail::eight_digits(number - 100'000'000 * first);
    digits.leading[i] = decimal.exponent + 6 + static_cast<int>(eight + nine);
  }
}

}  // namespace tokengrad::TOKENGRAD_CPU
