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
  return static_cast<uint32_t>(high >> 32) | (static_cast<uint32_t>(high) > 1);
}

/// `condition ? yes : no` without a jump.
inline uint32_t pick(uint32_t condition, uint32_t yes, uint32_t no) {
  return no ^ ((yes ^ no) & (0 - condition));
}

}  // namespace detail

/// The shortest decimal of c * 2^q, with c below 2^24 and above 0. `is_power` tells that the next
/// number below is nearer than the next one above.
template <Halves halves>
inline Decimal shortest_decimal(uint32_t c, int q, bool is_power) {
  const uint32_t open = halves == Halves::kNone ? 1 : c & 1;
  const int k = is_power ? floor_log10_three_quarters_pow2(q) : floor_log10_pow2(q);
  const int h = q + floor_log2_pow10(-k) + 1;
  const uint64_t g = power_of_ten(-k);
  // All in quarters of 10^k: the number, and the ends of what rounds to it.
  const uint32_t value = detail::round_to_odd(g, (4 * c) << h);
  const uint32_t low = detail::round_to_odd(g, (4 * c - 2 + is_power) << h) + open;
  const uint32_t high = detail::round_to_odd(g, (4 * c + 2) << h) - open;

  // One digit less, where a decimal with that much lies inside; else the nearer one of those that
  // do. All of it without jumps, since random digits decide.
  const uint32_t below = value / 4;
  const uint32_t tens = below / 10;
  const uint32_t tens_inside = low <= 40 * tens;
  const uint32_t next_tens_inside = 40 * tens + 40 <= high;
  const uint32_t below_inside = low <= 4 * below;
  const uint32_t above_inside = 4 * below + 4 <= high;
  const uint32_t half = 4 * below + 2;
  const uint32_t nearer = (value > half) | ((value == half) & below & 1);
  const uint32_t above = detail::pick(below_inside ^ above_inside, above_inside, nearer);
  const uint32_t shorter = (tens > 0) & (tens_inside ^ next_tens_inside);
  return {detail::pick(shorter, 10 * (tens + next_tens_inside), below + above), k};
}

}  // namespace tokengrad
