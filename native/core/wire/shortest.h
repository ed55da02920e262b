// The shortest decimal that stands for a binary floating-point number of few bits.
//
// After Raffaello Giulietti, "The Schubfach way to render doubles" (2020): of the decimals with
// the fewest digits that round to the number it gives the nearest one.
#pragma once

#include <cstdint>

#include "core/wire/powers_of_ten.h"

namespace tokengrad {

/// digits * 10^exponent. The digits may end in zeros.
struct Decimal {
  uint32_t digits;
  int exponent;
};

/// Whether a decimal half-way between two numbers stands for the even one, or for neither.
enum class Halves { kEven, kNone };

namespace detail {

/// g * factor / 2^64, rounded down, with the lowest bit set if anything but noise was cut off: the
/// last bits of the product are noise, since g is a rounded power of ten.
inline uint32_t round_to_odd(uint64_t g, uint32_t factor) {
  const uint64_t low = (g & 0xffffffff) * factor;
  const uint64_t high = (g >> 32) * factor + (low >> 32);
  const uint64_t cut_off = (high & 0xffffffff) >> 1;
  return static_cast<uint32_t>(high >> 32) | static_cast<uint32_t>((0 - cut_off) >> 63);
}

/// 1 if a < b, else 0, for numbers below 2^31. Without a comparison, so that compilers neither make
/// a jump of it nor fail to vectorise it.
inline uint32_t less(uint32_t a, uint32_t b) { return (a - b) >> 31; }

/// `condition ? yes : no`, likewise.
inline uint32_t pick(uint32_t condition, uint32_t yes, uint32_t no) {
  return no ^ ((yes ^ no) & (0 - condition));
}

}  // namespace detail

/// The exponent of the last digit that the shortest decimal of a number may have, if the number is
/// c * 2^q. `is_power` is 1 where the next number below is nearer than the next one above, else 0.
inline int last_exponent(int q, uint32_t is_power) {
  return floor_log10_pow2(q, static_cast<int>(is_power));
}

/// The shortest decimal of c * 2^q, with c below 2^24 and above 0; `g` is `power_of_ten` of minus
/// the last exponent.
template <Halves halves>
inline Decimal shortest_decimal(uint32_t c, int q, uint32_t is_power, uint64_t g) {
  const uint32_t open = halves == Halves::kNone ? 1 : c & 1;
  const int k = last_exponent(q, is_power);
  const int h = q + floor_log2_pow10(-k) + 1;
  // All in quarters of 10^k: the number, and the ends of what rounds to it.
  const uint32_t value = detail::round_to_odd(g, (4 * c) << h);
  const uint32_t low = detail::round_to_odd(g, (4 * c - 2 + is_power) << h) + open;
  const uint32_t high = detail::round_to_odd(g, (4 * c + 2) << h) - open;

  // One digit less, where a decimal with that much lies inside; else the nearer one of those that
  // do.
  const uint32_t below = value / 4;
  const uint32_t tens = below / 10;
  const uint32_t tens_outside = detail::less(40 * tens, low);
  const uint32_t next_tens_outside = detail::less(high, 40 * tens + 40);
  const uint32_t below_outside = detail::less(4 * below, low);
  const uint32_t above_outside = detail::less(high, 4 * below + 4);
  const uint32_t nearer = detail::less(4 * below + 2, value + (below & 1));
  const uint32_t above = detail::pick(below_outside ^ above_outside, below_outside, nearer);
  const uint32_t shorter = detail::less(0, tens) & (tens_outside ^ next_tens_outside);
  return {detail::pick(shorter, 10 * (tens + tens_outside), below + above), k};
}

template <Halves halves>
inline Decimal shortest_decimal(uint32_t c, int q, uint32_t is_power) {
  return shortest_decimal<halves>(c, q, is_power, power_of_ten(-last_exponent(q, is_power)));
}

}  // namespace tokengrad
