// Powers of ten in 64 bits, as the search for the shortest decimal needs them.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace tokengrad {

/// floor(log10(2^e)), or if `three_quarters` is 1 floor(log10(3/4 * 2^e)); for |e| < 1500.
constexpr int floor_log10_pow2(int e, int three_quarters) {
  return (e * 1262611 - three_quarters * 524031) >> 22;
}
/// floor(log2(10^e)), for |e| < 1200.
constexpr int floor_log2_pow10(int e) { return (e * 1741647) >> 19; }

/// The exponents that texts of float32 and bfloat16 ask for, and one more for 0.
inline constexpr int kLeastPower = -36;
inline constexpr int kLargestPower = 46;

namespace detail {

/// A natural number below 2^192, least limb first.
struct Natural {
  std::array<uint32_t, 6> limbs{};

  constexpr void times(uint32_t factor) {
    uint64_t carry = 0;
    for (uint32_t& limb : limbs) {
      carry += static_cast<uint64_t>(limb) * factor;
      limb = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
  }
  constexpr bool at_least(const Natural& other) const {
    for (size_t i = limbs.size(); i-- > 0;) {
      if (limbs[i] != other.limbs[i]) return limbs[i] > other.limbs[i];
    }
    return true;
  }
  constexpr void minus(const Natural& other) {
    int64_t borrow = 0;
    for (size_t i = 0; i < limbs.size(); ++i) {
      borrow += static_cast<int64_t>(limbs[i]) - other.limbs[i];
      limbs[i] = static_cast<uint32_t>(borrow);
      borrow >>= 32;
    }
  }
  constexpr int bit_width() const {
    for (size_t i = limbs.size(); i-- > 0;) {
      if (limbs[i] != 0) return static_cast<int>(32 * i) + std::bit_width(limbs[i]);
    }
    return 0;
  }
  constexpr bool bit(int index) const { return limbs[index / 32] >> (index % 32) & 1; }
};

constexpr Natural pow10(int exponent) {
  Natural power;
  power.limbs[0] = 1;
  for (int i = 0; i < exponent; ++i) power.times(10);
  return power;
}

/// The first 64 binary digits of 10^exponent.
constexpr uint64_t leading_bits(int exponent) {
  uint64_t bits = 0;
  if (exponent >= 0) {
    const Natural power = pow10(exponent);
    const int width = power.bit_width();
    for (int i = 1; i <= 64; ++i) bits = bits << 1 | (i <= width && power.bit(width - i));
    return bits;
  }
  // Long division of a power of two, beginning with the first digit of the quotient.
  const Natural divisor = pow10(-exponent);
  Natural rest;
  rest.limbs[0] = 1;
  while (!rest.at_least(divisor)) rest.times(2);
  for (int i = 0; i < 64; ++i) {
    const bool digit = rest.at_least(divisor);
    if (digit) rest.minus(divisor);
    rest.times(2);
    bits = bits << 1 | digit;
  }
  return bits;
}

constexpr auto all_powers() {
  std::array<uint64_t, kLargestPower - kLeastPower + 1> powers{};
  for (int e = kLeastPower; e <= kLargestPower; ++e) powers[e - kLeastPower] = leading_bits(e) + 1;
  return powers;
}

inline constexpr auto kPowers = all_powers();

}  // namespace detail

/// floor(10^exponent * 2^s) + 1, for the s that makes the product at least 2^63 and below 2^64.
constexpr uint64_t power_of_ten(int exponent) { return detail::kPowers[exponent - kLeastPower]; }

}  // namespace tokengrad
