// Writes numbers as the JSON text with the fewest characters.
//
// Writers put a few bytes more than they say, since whole words are stored: give them room.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "core/wire/shortest.h"

namespace tokengrad {

static_assert(std::endian::native == std::endian::little);

/// Bytes that a writer of one number may touch.
inline constexpr size_t kNumberRoom = 32;

namespace detail {

inline constexpr std::array<uint32_t, 10> kPow10 = {
    1, 10, 100, 1'000, 10'000, 100'000, 1'000'000, 10'000'000, 100'000'000, 1'000'000'000};
inline constexpr uint64_t kAsciiZeros = 0x3030303030303030;

/// Decimal digits of a number above 0 and below 10^9.
inline int count_digits(uint32_t number) {
  const int guess = std::bit_width(number) * 1233 >> 12;
  return guess + (number >= kPow10[guess]);
}

/// The 8 digits of a number below 10^8, one a byte, the first in the lowest byte.
inline uint64_t eight_digits(uint32_t number) {
  const uint32_t upper = number / 10'000;
  uint64_t digits = upper | static_cast<uint64_t>(number - 10'000 * upper) << 32;
  const uint64_t hundreds = (digits * 10'486 >> 20) & 0x0000007f0000007f;
  digits = hundreds | (digits - 100 * hundreds) << 16;
  const uint64_t tens = (digits * 103 >> 10) & 0x000f000f000f000f;
  return tens | (digits - 10 * tens) << 8;
}

inline void store8(char* out, uint64_t bytes) { std::memcpy(out, &bytes, 8); }

inline constexpr int kLeastExponent = -64;

/// `e` and an exponent in the low bytes, and how many bytes that are in the highest one.
inline constexpr auto kExponents = [] {
  std::array<uint64_t, 2 * -kLeastExponent> all{};
  for (int e = kLeastExponent; e < -kLeastExponent; ++e) {
    uint64_t& entry = all[e - kLeastExponent];
    uint64_t length = 0;
    const auto put = [&](int c) { entry |= static_cast<uint64_t>(c) << (8 * length++); };
    const int size = e < 0 ? -e : e;
    put('e');
    if (e < 0) put('-');
    if (size >= 10) put('0' + size / 10);
    put('0' + size % 10);
    entry |= length << 56;
  }
  return all;
}();

/// The three digits of each number below 1,000, and how many of them are not leading zeros in the
/// highest byte; 0 has one.
inline constexpr auto kThreeDigits = [] {
  std::array<uint32_t, 1000> all{};
  for (uint32_t i = 0; i < 1000; ++i) {
    const uint32_t digits = 0x303030 | i / 100 | i / 10 % 10 << 8 | i % 10 << 16;
    all[i] = digits | (i >= 100 ? 3u : i >= 10 ? 2u : 1u) << 24;
  }
  return all;
}();
inline constexpr uint32_t kThreeBytes = 0xffffff;

}  // namespace detail

/// Writes the number that begins with the digit `first`, of weight 10^leading, and goes on with the
/// 8 digits of `others`, which may end in zeros. Gives the end of the text. Of two texts with the
/// fewest characters it is the one without exponent.
inline char* write_digits(uint32_t first, uint64_t others, int leading, char* out) {
  const int digits = 9 - std::countl_zero(others | 1) / 8 - (others == 0);
  const uint64_t text = others | detail::kAsciiZeros;
  const char first_text = static_cast<char>('0' + first);
  const int last = leading - digits + 1;  // exponent of the last digit

  if (leading >= 0 && leading <= 10 && last <= 2) {
    out[0] = first_text;
    detail::store8(out + 1, text);
    if (last >= 0) {
      std::memcpy(out + 9, "00", 2);
      return out + leading + 1;
    }
    out[leading + 1] = '.';
    detail::store8(out + leading + 2, text >> (8 * leading));
    return out + digits + 1;
  }
  // Zeros behind the point, unless the two or three characters of an exponent are fewer. Both forms
  // are written alike, since it is random which one comes.
  const int zeros = -1 - leading;
  const uint32_t plain = (zeros >= 0) & (zeros <= 1 + (last <= -10));
  std::memcpy(out, "0.00", 4);
  out += detail::pick(plain, 2 + zeros, 0);
  out[0] = first_text;
  detail::store8(out + 1, text);
  const uint64_t exponent = detail::kExponents[last - detail::kLeastExponent];
  detail::store8(out + digits, exponent);
  return out + digits + detail::pick(plain, 0, exponent >> 56);
}

/// Writes a decimal of up to 9 digits, not 0.
inline char* write_decimal(Decimal decimal, char* out) {
  const int given = detail::count_digits(decimal.digits);
  const uint32_t nine = decimal.digits * detail::kPow10[9 - given];
  const uint32_t first = nine / 100'000'000;
  return write_digits(first, detail::eight_digits(nine - 100'000'000 * first),
                      decimal.exponent + given - 1, out);
}

/// Writes a finite float32 so that it reads back as the same float32, with the fewest digits.
inline char* write_float32(float value, char* out) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  *out = '-';
  out += bits >> 31;
  const uint32_t fraction = bits & 0x7fffff;
  const int biased = static_cast<int>(bits >> 23 & 0xff);
  if ((bits << 1) == 0) {
    *out = '0';
    return out + 1;
  }
  const uint32_t c = biased == 0 ? fraction : fraction | 0x800000;
  const int q = (biased == 0 ? 1 : biased) - 150;
  return write_decimal(shortest_decimal<Halves::kEven>(c, q, fraction == 0 && biased > 1), out);
}

/// Writes a whole number below 10^6, as most token ids are.
inline char* write_small_whole(uint32_t number, char* out) {
  const uint32_t upper = number / 1000;
  uint64_t text = detail::kThreeDigits[number - 1000 * upper];
  uint32_t lead = static_cast<uint32_t>(text);
  text &= detail::kThreeBytes;
  uint32_t length = 0;
  if (upper > 0) {
    lead = detail::kThreeDigits[upper];
    text = (text << 24) | (lead & detail::kThreeBytes);
    length = 3;
  }
  const uint32_t significant = lead >> 24;
  detail::store8(out, text >> (8 * (3 - significant)));
  return out + length + significant;
}

/// Writes a whole number.
inline char* write_whole(uint64_t number, char* out) {
  if (number < 1'000'000) return write_small_whole(static_cast<uint32_t>(number), out);
  constexpr uint64_t kTenToEight = 100'000'000;
  if (number >= kTenToEight) {
    out = write_whole(number / kTenToEight, out);
    detail::store8(out, detail::eight_digits(number % kTenToEight) | detail::kAsciiZeros);
    return out + 8;
  }
  const uint32_t small = static_cast<uint32_t>(number);
  const int skipped = 8 - detail::count_digits(small | 1);
  const uint64_t text = detail::eight_digits(small) | detail::kAsciiZeros;
  detail::store8(out, text >> (8 * skipped));
  return out + 8 - skipped;
}

}  // namespace tokengrad
