// Tests of the number texts: they read back, are as short as can be, and are JSON.
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <string_view>

#include "core/wire/bfloat16_text.h"
#include "core/wire/decimal_text.h"
#include "test/check.h"

namespace tokengrad {
namespace {

float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }

std::string float32_text(float value) {
  char text[kNumberRoom];
  return {text, write_float32(value, text)};
}

std::string bfloat16_text(uint16_t bits) {
  char text[kNumberRoom];
  return {text, write_bfloat16(bfloat16_texts(), bits, text) - 1};
}

template <typename T>
T read(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  EXPECT(end == text.data() + text.size());
  // Underflow to 0 does not happen here; subnormal numbers are no errors.
  EXPECT(error == std::errc());
  return value;
}

/// Digits of a number's text from its first one that is not 0 to its last one that is not 0.
size_t significant_digits(std::string_view text) {
  text = text.substr(0, text.find('e'));
  std::string digits;
  for (const char c : text) {
    if (c >= '0' && c <= '9') digits += c;
  }
  const size_t first = digits.find_first_not_of('0');
  return first == std::string::npos ? 1 : digits.find_last_not_of('0') - first + 1;
}

/// Whether the text is a number by JSON's grammar.
bool is_json_number(std::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - begin;
  };
  if (text.starts_with('-')) ++at;
  const bool zero = text.substr(at).starts_with('0');
  const size_t whole = digits();
  if (whole == 0 || (zero && whole > 1)) return false;
  if (text.substr(at).starts_with('.') && (++at, digits() == 0)) return false;
  if (text.substr(at).starts_with('e')) {
    ++at;
    if (text.substr(at).starts_with('-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

void check_float32(float value) {
  const std::string text = float32_text(value);
  char plain[64];
  char oracle[64];
  const auto size = std::to_chars(plain, plain + sizeof(plain), value).ptr - plain;
  // Large whole numbers come with all their digits unless asked for in this form.
  const auto [end, error] =
      std::to_chars(oracle, oracle + sizeof(oracle), value, std::chars_format::scientific);
  EXPECT(error == std::errc());
  const std::string_view expected(oracle, end - oracle);
  const auto describe = [&] { return text + " for " + std::string(expected); };
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::bit_cast<uint32_t>(read<float>(text)) != bits ||
      std::bit_cast<uint32_t>(static_cast<float>(read<double>(text))) != bits ||
      significant_digits(text) != significant_digits(expected) ||
      text.size() > static_cast<size_t>(size) ||
      // Of the shortest ones the nearest: the oracle's digits give the same number.
      read<double>(text) != read<double>(expected) || !is_json_number(text)) {
    test::fail(__FILE__, __LINE__, describe());
  }
}

TEST(float32_texts_of_random_bits) {
  std::mt19937 random(20);
  for (int i = 0; i < 3'000'000; ++i) {
    const float value = float_of(static_cast<uint32_t>(random()));
    if (std::isfinite(value)) check_float32(value);
  }
}

TEST(float32_texts_of_small_gradients) {
  std::mt19937 random(21);
  std::normal_distribution<float> normal(0, 0.002f);
  for (int i = 0; i < 1'000'000; ++i) check_float32(normal(random));
}

TEST(float32_texts_of_powers_of_two_and_their_neighbours) {
  for (uint32_t exponent = 1; exponent < 255; ++exponent) {
    const uint32_t power = exponent << 23;
    for (uint32_t bits = power - 300; bits != power + 300; ++bits) check_float32(float_of(bits));
  }
}

TEST(float32_texts_of_subnormal_numbers) {
  for (uint32_t bits = 1; bits < 300'000; ++bits) check_float32(float_of(bits));
  for (uint32_t bits = 0x7fffff; bits > 0x7fffff - 300'000; --bits) check_float32(float_of(bits));
  for (uint32_t bit = 0; bit < 23; ++bit) check_float32(float_of(1u << bit));
}

TEST(float32_texts_of_whole_numbers) {
  for (uint32_t i = 1; i < 300'000; ++i) check_float32(static_cast<float>(i));
  for (uint32_t i = (1u << 24) - 1000; i < (1u << 24) + 1000; ++i) {
    check_float32(static_cast<float>(i));
  }
}

TEST(float32_texts_of_powers_of_ten_and_their_neighbours) {
  for (int e = -45; e <= 38; ++e) {
    const float power = read<float>("1e" + std::to_string(e));
    const auto bits = std::bit_cast<uint32_t>(power);
    const uint32_t begin = std::max(bits, 21u) - 20;
    for (uint32_t near = begin; near < bits + 20; ++near) check_float32(float_of(near));
  }
}

TEST(float32_texts_in_the_form_with_the_fewest_characters) {
  const auto check = [](float value, const char* text) { EXPECT_EQUAL(float32_text(value), text); };
  check(0.0f, "0");
  check(-0.0f, "-0");
  check(1.0f, "1");
  check(-1.0f, "-1");
  check(0.1f, "0.1");
  check(-0.5f, "-0.5");
  check(0.01f, "0.01");
  check(0.001f, "1e-3");
  check(100.0f, "100");
  check(1000.0f, "1e3");
  check(12.5f, "12.5");
  check(1234567.0f, "1234567");
  check(16777216.0f, "16777216");
  check(-16777215.0f, "-16777215");
  check(123456790.0f, "123456790");
  check(-0.0425557f, "-0.0425557");
  check(0.001220703125f, "0.0012207031");
  check(0.0001220703125f, "12207031e-11");
  check(float_of(1), "1e-45");
  check(std::numeric_limits<float>::max(), "34028235e31");
  check(std::numeric_limits<float>::lowest(), "-34028235e31");
  check(std::numeric_limits<float>::min(), "11754944e-45");
}

/// A float64 rounded to the nearest bfloat16 in one step, ties to even.
uint16_t bfloat16_of(double value) {
  const double size = std::fabs(value);
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  // The bfloat16 at or below it, found by dropping bits; then the nearer neighbour.
  const auto below = static_cast<float>(size);
  auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(below) >> 16);
  while (static_cast<double>(float_of(static_cast<uint32_t>(bits) << 16)) > size) --bits;
  const double low = float_of(static_cast<uint32_t>(bits) << 16);
  const double high =
      bits == 0x7f7f ? std::ldexp(1.0, 128) : float_of((static_cast<uint32_t>(bits) + 1) << 16);
  const double middle = low + (high - low) / 2;
  if (size > middle || (size == middle && (bits & 1))) ++bits;
  return sign | bits;
}

TEST(every_bfloat16_text_reads_back_both_ways) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    if ((bits & 0x7f80) == 0x7f80) continue;
    const std::string text = bfloat16_text(static_cast<uint16_t>(bits));
    EXPECT(is_json_number(text));
    EXPECT_EQUAL(bfloat16_of(read<double>(text)), bits);
    EXPECT_EQUAL(bfloat16_of(static_cast<double>(read<float>(text))), bits);
  }
}

TEST(every_bfloat16_text_is_as_short_as_can_be) {
  for (uint32_t bits = 1; bits < 0x7f80; ++bits) {
    const std::string text = bfloat16_text(static_cast<uint16_t>(bits));
    const double value = float_of(bits << 16);
    const double below = float_of((bits - 1) << 16);
    const double above = bits == 0x7f7f ? std::ldexp(1.0, 128) : float_of((bits + 1) << 16);
    const double low = value - (value - below) / 2;
    const double high = value + (above - value) / 2;
    // No decimal with one digit less lies strictly between the half-way numbers.
    const auto digits = static_cast<int>(significant_digits(text));
    EXPECT(digits <= 4);
    if (digits == 1) continue;
    char shorter[64];
    const auto [end, error] = std::to_chars(shorter, shorter + sizeof(shorter), value,
                                            std::chars_format::scientific, digits - 2);
    EXPECT(error == std::errc());
    const auto exponent =
        read<int>(std::string_view(shorter, end - shorter)
                      .substr(std::string_view(shorter, end - shorter).find('e') + 1 +
                              (std::string_view(shorter, end - shorter).find("e+") !=
                               std::string_view::npos)));
    const double step = std::pow(10.0, exponent - digits + 2);
    const double nearest = read<double>(std::string_view(shorter, end - shorter));
    for (const double candidate : {nearest - step, nearest, nearest + step}) {
      if (candidate > low * (1 + 1e-12) && candidate < high * (1 - 1e-12)) {
        test::fail(__FILE__, __LINE__, text + " is not the shortest");
      }
    }
  }
}

TEST(bfloat16_texts_of_known_numbers) {
  EXPECT_EQUAL(bfloat16_text(0), "0");
  EXPECT_EQUAL(bfloat16_text(0x8000), "-0");
  EXPECT_EQUAL(bfloat16_text(0x3f80), "1");
  EXPECT_EQUAL(bfloat16_text(0x3dcd), "0.1");
  EXPECT_EQUAL(bfloat16_text(0xbdcd), "-0.1");
  EXPECT_EQUAL(bfloat16_text(0x0001), "9e-41");
  EXPECT_EQUAL(bfloat16_text(0x7f7f), "339e36");
}

TEST(whole_numbers_are_written_in_full) {
  const auto check = [](uint64_t number) {
    char text[kNumberRoom];
    EXPECT_EQUAL(std::string(text, write_whole(number, text)), std::to_string(number));
  };
  for (uint64_t i = 0; i < 1'010'000; ++i) check(i);
  for (uint64_t power = 1; power <= 1'000'000'000'000'000'000; power *= 10) {
    for (const uint64_t number : {power - 1, power, power + 1}) check(number);
    if (power == 1'000'000'000'000'000'000) break;
  }
  check((uint64_t{1} << 53) - 1);
  check((uint64_t{1} << 63) - 1);
  std::mt19937_64 random(3);
  for (int i = 0; i < 300'000; ++i) check(random() >> (random() % 64));
}

}  // namespace
}  // namespace tokengrad
