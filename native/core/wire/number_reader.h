// Reads JSON numbers as float32, correctly rounded.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tokengrad {

static_assert(std::endian::native == std::endian::little);

/// Bytes that `read_number` may look at. A number that is longer it leaves to `parse_number`.
inline constexpr size_t kReadRoom = 64;

/// A float32 read from text, and what is behind the text; null where there was no such number.
struct ReadNumber {
  float value;
  const char* end;
};

/// Any JSON number; an infinity where it is too large for a float32. Null where the text is not a
/// number by JSON's grammar, as a whole.
ReadNumber parse_number(std::string_view text);

namespace detail {

inline constexpr int kLeastScale = -64;
inline constexpr int kLargestScale = 38;

/// Powers of ten as float64, each rounded once.
extern const std::array<double, kLargestScale - kLeastScale + 1> kScales;

/// The most that can be multiplied by 10^n and added 10^n to, below 2^63.
inline constexpr auto kMostDigits = [] {
  std::array<uint64_t, 9> most{};
  uint64_t power = 1;
  for (uint64_t& entry : most) {
    entry = (uint64_t{1} << 63) / power - 1;
    power *= 10;
  }
  return most;
}();

inline constexpr std::array<uint64_t, 9> kPowers10 = {
    1, 10, 100, 1'000, 10'000, 100'000, 1'000'000, 10'000'000, 100'000'000};

inline bool is_digit(char c) { return static_cast<unsigned char>(c - '0') <= 9; }

/// Takes up to 8 digits into `digits`: how many there were, or -1 if they do not fit.
inline int take_digits(const char* from, uint64_t& digits) {
  uint64_t bytes;
  std::memcpy(&bytes, from, 8);
  bytes ^= 0x3030303030303030;
  // Sets the highest bit of each byte that is no digit, up to the first one at least.
  const uint64_t others = ((bytes + 0x7676767676767676) | bytes) & 0x8080808080808080;
  const int count = std::countr_zero(others) / 8;
  if (count == 0) return 0;
  if (digits > kMostDigits[count]) return -1;
  bytes <<= 8 * (8 - count);
  bytes = bytes * 10 + (bytes >> 8);  // pairs of digits, in every second byte
  bytes = ((bytes & 0x000000ff000000ff) * 0x000f424000000064 +
           (bytes >> 16 & 0x000000ff000000ff) * 0x0000271000000001) >>
          32;
  digits = digits * kPowers10[count] + static_cast<uint32_t>(bytes);
  return count;
}

/// digits * 10^scale as a float32; false where the nearest one cannot be told by float64
/// arithmetic.
inline bool round_to_float(uint64_t digits, int scale, float& value) {
  if (scale < kLeastScale || scale > kLargestScale) return false;
  const double wide =
      static_cast<double>(static_cast<int64_t>(digits)) * kScales[scale - kLeastScale];
  // Three roundings made it, so it is within 3 steps of the true value. That the float32 is the
  // same for all of these can be told where no half-way number is near, and steps of float32 are
  // 2^29 steps of float64: for normal numbers.
  constexpr uint64_t kHalf = uint64_t{1} << 28;
  const uint64_t low = std::bit_cast<uint64_t>(wide) & (2 * kHalf - 1);
  value = static_cast<float>(wide);
  return low - (kHalf - 4) > 8 && wide > 0x1.00001p-126 && wide < 0x1.fffffp127;
}

}  // namespace detail

/// A JSON number at `from`. Null where it is long, tiny, huge or just between two float32 numbers,
/// and where it is no number: `parse_number` then tells.
inline ReadNumber read_number(const char* from) {
  constexpr ReadNumber kNone{0, nullptr};
  const bool negative = *from == '-';
  from += negative;
  if (!detail::is_digit(*from)) return kNone;
  uint64_t digits = *from++ - '0';
  if (digits == 0) {
    if (detail::is_digit(*from)) return kNone;
  } else {
    for (int count = 1; detail::is_digit(*from); ++count) {
      if (count == 18) return kNone;
      digits = 10 * digits + (*from++ - '0');
    }
  }
  int scale = 0;
  if (*from == '.') {
    ++from;
    for (int count = 8; count == 8; scale -= count, from += count) {
      count = detail::take_digits(from, digits);
      if (count < 0 || scale < -24) return kNone;
    }
    if (scale == 0) return kNone;
  }
  if ((*from | 0x20) == 'e') {
    ++from;
    const bool down = *from == '-';
    from += down || *from == '+';
    if (!detail::is_digit(*from)) return kNone;
    int exponent = *from++ - '0';
    for (int count = 1; detail::is_digit(*from); ++count) {
      if (count == 3) return kNone;
      exponent = 10 * exponent + (*from++ - '0');
    }
    scale += down ? -exponent : exponent;
  }
  float value = 0;
  if (digits != 0) [[likely]] {
    if (!detail::round_to_float(digits, scale, value)) return kNone;
  }
  return {negative ? -value : value, from};
}

}  // namespace tokengrad
