// Tests of reading numbers: correctly rounded, by either way, and nothing but JSON.
#include "core/wire/number_reader.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

#include "core/wire/decimal_text.h"
#include "test/check.h"

namespace tokengrad {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }

/// Reads a text both ways; `exact` tells what it stands for.
void check(const std::string& text, float exact) {
  const auto [parsed, end] = parse_number(text);
  const std::string padded = text + std::string(kReadRoom, ',');
  const auto [read, read_end] = read_number(padded.data());
  const bool fast_is_right = read_end == nullptr || (read_end == padded.data() + text.size() &&
                                                     bits_of(read) == bits_of(exact));
  if (end != text.data() + text.size() || bits_of(parsed) != bits_of(exact) || !fast_is_right) {
    test::fail(__FILE__, __LINE__, text + " is read as " + std::to_string(parsed));
  }
}

/// The standard library's own correctly rounded reading.
float oracle(const std::string& text) { return std::strtof(text.c_str(), nullptr); }

bool is_fast(const std::string& text) {
  return read_number((text + std::string(kReadRoom, ',')).data()).end != nullptr;
}

template <typename T>
std::string printed(T value, std::chars_format format, int precision) {
  char text[512];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value, format, precision);
  EXPECT(error == std::errc());
  return {text, end};
}

TEST(numbers_are_read_from_their_shortest_texts) {
  std::mt19937 random(31);
  for (int i = 0; i < 1'000'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    char text[kNumberRoom];
    check({text, write_float32(value, text)}, value);
  }
}

TEST(numbers_are_read_from_texts_of_any_precision) {
  std::mt19937_64 random(32);
  for (int i = 0; i < 500'000; ++i) {
    const double value =
        std::ldexp(static_cast<double>(random()), -64 - static_cast<int>(random() % 200) + 110);
    const auto format = random() % 2 ? std::chars_format::scientific : std::chars_format::fixed;
    const std::string text = printed(random() % 2 ? -value : value, format, random() % 25);
    check(text, oracle(text));
  }
}

TEST(numbers_half_way_between_two_are_rounded_to_the_even_one) {
  std::mt19937 random(33);
  for (int i = 0; i < 100'000; ++i) {
    const uint32_t bits = random() % 0x7f7fffff;
    const double low = std::bit_cast<float>(bits);
    const double high = std::bit_cast<float>(bits + 1);
    // All its digits, and those of what is just above and below.
    const std::string half = printed(low + (high - low) / 2, std::chars_format::scientific, 120);
    check(half, static_cast<float>(bits % 2 == 0 ? low : high));
    const size_t e = half.find('e');
    check(half.substr(0, e) + "1" + half.substr(e), static_cast<float>(high));
    const std::string below =
        printed(std::nextafter(low + (high - low) / 2, 0), std::chars_format::scientific, 130);
    check(below, static_cast<float>(low));
  }
  check("16777217", 16777216.0f);
  check("16777219", 16777220.0f);
  check("16777217.0000000000000000000000000000001", 16777218.0f);
}

TEST(numbers_come_in_any_json_form) {
  check("0", 0);
  check("-0", -0.0f);
  check("-0.0", -0.0f);
  check("0e999", 0);
  check("1E5", 1e5f);
  check("1e+5", 1e5f);
  check("1e05", 1e5f);
  check("1.5e-00002", 0.015f);
  check("100000e-5", 1);
  check("123456789012345678901234567890", 123456789012345678901234567890.0f);
  check("0.00000000000000000000000000000000000000000000000000001e53", 1);
  check(std::string("1") + std::string(400, '0') + "e-400", 1);
  check("1e-45", std::bit_cast<float>(1u));
  check("1.1754942e-38", std::bit_cast<float>(0x007fffffu));
  check("3.4028235e38", std::numeric_limits<float>::max());
}

TEST(numbers_out_of_range_become_infinities_and_zeros) {
  check("3.4028236e38", kInfinity);
  check("-1e39", -kInfinity);
  check("1e400", kInfinity);
  check("1e99999999999999999999", kInfinity);
  check("-1e-99999999999999999999", -0.0f);
  check("1e-46", 0);
  check("-1e-400", -0.0f);
  check("0.0000000001e400", kInfinity);
  check(std::string("1") + std::string(100, '0'), kInfinity);
  check("0." + std::string(100, '0') + "1", 0);
}

TEST(whatever_is_no_json_number_is_refused) {
  for (const std::string text :
       {"",     "-",     "+1",    ".5",   "5.",  "01",  "-01",      "1e", "1e+",
        "1.e5", "--1",   "0x1",   "inf",  "nan", "NaN", "Infinity", "1 ", " 1",
        "1_0",  "1e5.5", "1.2.3", "null", "00",  "1d5", "1f"}) {
    EXPECT(parse_number(text).end == nullptr);
    const std::string padded = text + std::string(kReadRoom, ',');
    // The fast way may stop within the text, but not at its end.
    EXPECT(read_number(padded.data()).end != padded.data() + text.size());
  }
}

TEST(log_probabilities_are_read_the_fast_way) {
  for (const std::string text :
       {"0", "0.0", "-0.5", "-1.2345679", "-12.345678", "-1.2345678806304932",
        "-1.1920928955078125e-07", "-9.999999747378752e-05", "-104.25"}) {
    EXPECT(is_fast(text));
  }
}

}  // namespace
}  // namespace tokengrad
