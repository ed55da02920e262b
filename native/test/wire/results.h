// What the tests of reading results share: rows that are expected, and texts read in parts, by one
// thread and by several.
#pragma once

#include <deque>
#include <future>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/wire/reading.h"
#include "core/wire/result_reader.h"
#include "test/check.h"

namespace tokengrad::test {

inline const RowPath kPath{"output", "outputs", "*", "data"};
inline constexpr ReadLimits kLimits{1 << 16, 16};

/// Rows of 3, 1 and 4 positions, trained 1 2 of the first and 0 and 3 of the third.
struct Expected {
  std::vector<uint32_t> lengths{3, 1, 4};
  std::vector<uint32_t> run_counts{1, 0, 2};
  std::vector<uint32_t> runs{1, 2, 0, 1, 3, 1};
  bool packed = false;

  RowsSpec spec(std::vector<float>& out) const { return {lengths, run_counts, runs, out, packed}; }
};

struct Read {
  std::vector<float> values;
  std::string rest;
  size_t rows = 0;
  /// What went wrong, and where.
  std::string fault;
  double sample = -1;
  double position = -1;
  bool garbled = false;

  bool operator==(const Read&) const = default;
};

/// Parts of a text, each in memory of its own size.
inline std::deque<std::vector<char>> parts_of(std::string_view text, size_t part) {
  std::deque<std::vector<char>> parts;
  for (; !text.empty(); text.remove_prefix(std::min(part, text.size()))) {
    const std::string_view bytes = text.substr(0, part);
    parts.emplace_back(bytes.begin(), bytes.end());
  }
  return parts;
}

/// Reads a text by one thread.
inline void read_here(ResultReader& reader, const std::deque<std::vector<char>>& parts) {
  for (const std::vector<char>& part : parts) reader.push({part.data(), part.size()});
  reader.finish();
}

/// Leaves even the shortest passages to other threads.
inline std::shared_ptr<Reading> read_on_pool(ResultReader reader,
                                             const std::deque<std::vector<char>>& parts) {
  static Pool pool(3);
  const auto reading = std::make_shared<Reading>(
      std::move(reader), ReadingSizes{.inline_bytes = 0, .passage_bytes = 1});
  for (const std::vector<char>& part : parts) reading->push(pool, {part.data(), part.size()});
  std::promise<std::optional<Error>> done;
  reading->finish([&](std::optional<Error> error) { done.set_value(std::move(error)); });
  if (const auto error = done.get_future().get()) throw Error(*error);
  EXPECT_EQUAL(reading->consumed(), parts.size());
  return reading;
}

/// Reads a text that comes in parts of `part` bytes.
inline Read read(const std::string& text, size_t part, const Expected& expected = {},
                 const ReadLimits& limits = kLimits, bool on_pool = false) {
  Read result;
  result.values.assign(expected.packed ? 4 : 8, -99);
  ResultReader reader(kPath, expected.spec(result.values), limits);
  const auto parts = parts_of(text, part);
  const auto take = [&](const ResultReader& done) {
    result.rest = done.rest();
    result.rows = done.complete_rows();
  };
  try {
    if (on_pool) {
      take(read_on_pool(std::move(reader), parts)->result());
    } else {
      read_here(reader, parts);
      take(reader);
    }
  } catch (const Error& error) {
    EXPECT_EQUAL(error.code(), std::string("ERR_RESULT"));
    result.fault = error.what();
    result.sample = fact(error, "sample", -1.0);
    result.position = fact(error, "position", -1.0);
    result.garbled = fact(error, "reason", std::string()) == "garbled";
    // How far the values and the rest came is nobody's business then.
    result.values.clear();
  }
  return result;
}

/// Reads a text whole and in parts of every size, by one thread and by several: all must be the
/// same.
inline Read read_all(const std::string& text, const Expected& expected = {},
                     const ReadLimits& limits = kLimits) {
  const Read whole = read(text, text.size() + 1, expected, limits);
  for (size_t part = 1; part <= text.size() + 1; ++part) {
    for (const bool on_pool : {false, true}) {
      const Read parts = read(text, part, expected, limits, on_pool);
      if (!(parts == whole)) {
        fail(__FILE__, __LINE__,
             text + "\n  in parts of " + std::to_string(part) + (on_pool ? " on a pool: " : ": ") +
                 parts.fault + "\n  whole: " + whole.fault);
      }
    }
  }
  return whole;
}

inline std::string result_of(const std::string& outputs) {
  return R"({"id":"x","output":{"loss":1.5,"outputs":)" + outputs + R"(},"status":"DONE"})";
}

}  // namespace tokengrad::test
