// Reads JSON numbers as float32, correctly rounded.
#include "core/wire/number_reader.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

namespace tokengrad {
namespace detail {

const std::array<double, kLargestScale - kLeastScale + 1> kScales = [] {
  std::array<double, kLargestScale - kLeastScale + 1> scales{};
  for (int e = kLeastScale; e <= kLargestScale; ++e) {
    const std::string text = "1e" + std::to_string(e);
    std::from_chars(text.data(), text.data() + text.size(), scales[e - kLeastScale]);
  }
  return scales;
}();

}  // namespace detail

namespace {

/// Whether the text is a number by JSON's grammar.
bool is_number(std::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && detail::is_digit(text[at])) ++at;
    return at - begin;
  };
  const auto skip = [&](std::string_view any) {
    const bool found = at < text.size() && any.find(text[at]) != std::string_view::npos;
    at += found;
    return found;
  };
  skip("-");
  const bool zero = at < text.size() && text[at] == '0';
  const size_t whole = digits();
  if (whole == 0 || (zero && whole > 1)) return false;
  if (skip(".") && digits() == 0) return false;
  if (skip("eE")) {
    skip("+-");
    if (digits() == 0) return false;
  }
  return at == text.size();
}

/// Tells very large numbers from very small ones: those that a float32 cannot hold.
bool is_large(std::string_view text) {
  const size_t e = text.find_first_of("eE");
  const std::string_view digits = text.substr(0, e);
  const size_t first = digits.find_first_of("123456789");
  const size_t point = std::min(digits.find('.'), digits.size());
  long long exponent = 0;
  if (e != std::string_view::npos) {
    const size_t begin = e + 1 + (text[e + 1] == '+');
    // Where it does not fit, its sign tells all that matters.
    const auto read = std::from_chars(text.data() + begin, text.data() + text.size(), exponent);
    if (read.ec != std::errc()) return text[begin] != '-';
  }
  const auto place = static_cast<long long>(point) - static_cast<long long>(first);
  return exponent > -place;
}

}  // namespace

ReadNumber parse_number(std::string_view text) {
  if (!is_number(text)) return {0, nullptr};
  const char* const end = text.data() + text.size();
  float value = 0;
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec == std::errc::result_out_of_range) {
    value = is_large(text) ? std::numeric_limits<float>::infinity() : 0;
    if (text.front() == '-') value = -value;
  }
  return {value, end};
}

}  // namespace tokengrad
