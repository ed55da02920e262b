// Tests of random results: any JSON, cut anywhere.
#include <charconv>
#include <cmath>
#include <random>

#include "core/wire/decimal_text.h"
#include "test/wire/results.h"

namespace tokengrad::test {
namespace {

/// White space, mostly none.
std::string space(std::mt19937& random) {
  static const std::string all[] = {"", "", "", "", " ", "\n", "\t  ", "\r\n"};
  return all[random() % 8];
}

/// A value that has nothing to do with the rows.
std::string other(std::mt19937& random, int depth) {
  static const std::string scalars[] = {"null", "true",   "-1.5e3", "\"data\"",     "\"\\\\\"",
                                        "\"\"", "\"]}\"", "0",      "\"\\u00e9é\"", "\"a\\\"b\""};
  if (depth == 0 || random() % 3 == 0) return scalars[random() % 10];
  const bool object = random() % 2;
  std::string text(object ? "{" : "[");
  for (uint32_t i = random() % 4; i-- > 0;) {
    if (object) text += (random() % 2 ? "\"data\"" : "\"outputs\"") + space(random) + ":";
    text += space(random) + other(random, depth - 1) + space(random) + (i > 0 ? "," : "");
  }
  return text + (object ? "}" : "]");
}

std::string number_text(std::mt19937& random, float value) {
  char text[512];
  switch (random() % 4) {
    case 0:
      return {text, write_float32(value, text)};
    case 1:
      return {text, std::to_chars(text, text + sizeof(text), static_cast<double>(value)).ptr};
    case 2:
      return {
          text,
          std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific, 40).ptr};
    default:
      return {text,
              std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed, 60).ptr};
  }
}

/// A row of numbers, which go to `values`.
std::string row(std::mt19937& random, uint32_t length, std::vector<float>& values) {
  std::string text = "[";
  for (uint32_t i = 0; i < length; ++i) {
    values.push_back(
        std::ldexp(-static_cast<float>(random()), -32 - static_cast<int>(random() % 20)));
    if (i > 0) text += ",";
    text += space(random) + number_text(random, values.back()) + space(random);
  }
  return text + "]";
}

/// A sample that has a row, and members beside it.
std::string sample(std::mt19937& random, const std::string& row) {
  std::vector<std::string> members{"\"data\"" + space(random) + ":" + space(random) + row};
  for (uint32_t i = random() % 3; i-- > 0;) {
    std::string member = "\"other";
    member += std::to_string(i) + "\":" + other(random, 3);
    members.insert(members.begin() + random() % (members.size() + 1), member);
  }
  std::string text = "{";
  for (size_t i = 0; i < members.size(); ++i) text += (i > 0 ? "," : "") + members[i];
  return text + "}";
}

/// A text in parts of up to `most` bytes.
std::deque<std::vector<char>> random_parts(std::mt19937& random, std::string_view text,
                                           size_t most) {
  std::deque<std::vector<char>> parts;
  while (!text.empty()) {
    const std::string_view bytes = text.substr(0, random() % most + 1);
    parts.emplace_back(bytes.begin(), bytes.end());
    text.remove_prefix(bytes.size());
  }
  return parts;
}

TEST(random_results_are_read_alike_however_they_are_cut) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    Expected expected{{}, {}, {}};
    std::vector<float> values;
    std::string samples;
    for (uint32_t left = random() % 5 + 1; left-- > 0;) {
      const uint32_t length = random() % 40 + 1;
      expected.lengths.push_back(length);
      expected.run_counts.push_back(1);
      expected.runs.insert(expected.runs.end(), {0, length});
      samples += space(random) + sample(random, row(random, length, values));
      if (left > 0) samples += ",";
    }
    const std::string text = "{\"a\":" + other(random, 4) +
                             ",\"output\":{\"b\":" + other(random, 3) + ",\"outputs\":[" + samples +
                             "]}}";
    std::vector<float> out(values.size());
    for (int cut = 0; cut < 20; ++cut) {
      std::fill(out.begin(), out.end(), 0);
      ResultReader reader(kPath, expected.spec(out), kLimits);
      const auto parts =
          cut < 2 ? parts_of(text, text.size()) : random_parts(random, text, cut < 10 ? 20 : 400);
      size_t rows = 0;
      if (cut % 2 == 0) {
        read_here(reader, parts);
        rows = reader.complete_rows();
      } else {
        rows = read_on_pool(std::move(reader), parts)->result().complete_rows();
      }
      EXPECT(out == values);
      EXPECT_EQUAL(rows, expected.lengths.size());
    }
  }
}

}  // namespace
}  // namespace tokengrad::test
