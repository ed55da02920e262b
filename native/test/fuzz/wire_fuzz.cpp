// The fuzz target of the wire: results of any form are read alike however they are cut and by
// however many threads, and numbers as the standard library reads them. The entry point is
// libFuzzer's.
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <future>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/wire/decimal_text.h"
#include "core/wire/number_reader.h"
#include "core/wire/reading.h"
#include "core/wire/result_reader.h"

namespace tokengrad {
namespace {

/// Bytes of an input before its text: they choose how the text is cut.
constexpr size_t kHead = 4;

void require(bool condition) {
  if (!condition) std::abort();
}

struct Outcome {
  std::vector<float> values;
  std::string rest;
  std::string fault;

  bool operator==(const Outcome& other) const {
    return fault == other.fault && rest == other.rest &&
           std::memcmp(values.data(), other.values.data(), values.size() * sizeof(float)) == 0;
  }
};

using Parts = std::deque<std::vector<char>>;

/// A text in parts of 0 to `most` bytes, each in memory of its own size.
Parts cut(std::string_view text, uint32_t seed, size_t most) {
  std::minstd_rand random(seed);
  Parts parts;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, random() % (most + 1));
    parts.emplace_back(part.begin(), part.end());
    text.remove_prefix(part.size());
  }
  return parts;
}

/// Leaves even the shortest passages to other threads, and frees each part as soon as it may.
std::shared_ptr<Reading> read_on_pool(ResultReader reader, Parts parts) {
  static Pool pool(2);
  const auto reading = std::make_shared<Reading>(
      std::move(reader), ReadingSizes{.inline_bytes = 0, .passage_bytes = 1});
  size_t pushed = 0;
  size_t freed = 0;
  const auto free_consumed = [&] {
    for (; freed < reading->consumed(); ++freed) parts.pop_front();
  };
  for (const size_t count = parts.size(); pushed < count; ++pushed) {
    const std::vector<char>& part = parts[pushed - freed];
    reading->push(pool, {part.data(), part.size()});
    free_consumed();
  }
  std::promise<std::optional<Error>> done;
  reading->finish([&](std::optional<Error> error) { done.set_value(std::move(error)); });
  const auto error = done.get_future().get();
  free_consumed();
  require(parts.empty());
  if (error) throw Error(*error);
  return reading;
}

/// Reads a text that came in parts.
Outcome read(Parts parts, bool packed, bool on_pool) {
  static const std::vector<uint32_t> lengths{3, 1, 4};
  static const std::vector<uint32_t> run_counts{1, 0, 2};
  static const std::vector<uint32_t> runs{1, 2, 0, 1, 3, 1};
  Outcome outcome;
  outcome.values.assign(packed ? 4 : 8, 0);
  ResultReader reader({"output", "rows", "*", "data"},
                      {lengths, run_counts, runs, outcome.values, packed}, {.depth = 16});
  const auto take = [&](const ResultReader& done) {
    outcome.rest = done.rest();
    require(done.complete_rows() == 0 || done.complete_rows() == lengths.size());
    for (const float value : outcome.values) require(std::isfinite(value));
  };
  try {
    if (on_pool) {
      take(read_on_pool(std::move(reader), std::move(parts))->result());
    } else {
      for (const std::vector<char>& part : parts) reader.push({part.data(), part.size()});
      reader.finish();
      take(reader);
    }
  } catch (const Error& error) {
    require(error.code() == "ERR_RESULT");
    outcome.fault = error.what();
    outcome.values.assign(outcome.values.size(), 0);
  }
  return outcome;
}

void check_result(const uint8_t* head, std::string_view text) {
  const bool packed = head[0] & 1;
  const uint32_t seed = head[1] + 256u * head[2] + 1;
  const Parts parts = cut(text, seed, head[3] % 100 + 1);
  const Parts whole = text.empty() ? Parts{} : Parts{{text.begin(), text.end()}};
  const Outcome outcome = read(whole, packed, false);
  require(read(parts, packed, false) == outcome);
  require(read(cut(text, seed, 1), packed, false) == outcome);
  require(read(whole, packed, true) == outcome);
  require(read(parts, packed, true) == outcome);
}

void check_number(std::string_view text) {
  const std::string padded = std::string(text) + std::string(kReadRoom, ',');
  const auto [fast, fast_end] = read_number(padded.data());
  const auto [exact, end] = parse_number(text);
  if (end != nullptr) {
    const float expected = std::strtof(std::string(text).c_str(), nullptr);
    require(std::memcmp(&exact, &expected, sizeof(float)) == 0);
  }
  if (fast_end == padded.data() + text.size()) {
    require(end != nullptr && std::memcmp(&fast, &exact, sizeof(float)) == 0);
  }
}

void check_text(const uint8_t* head) {
  float value;
  std::memcpy(&value, head, sizeof(value));
  if (!std::isfinite(value)) return;
  char text[kNumberRoom];
  const char* const end = write_float32(value, text);
  const float back = parse_number({text, end}).value;
  require(std::memcmp(&back, &value, sizeof(float)) == 0);
}

}  // namespace
}  // namespace tokengrad

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tokengrad;
  if (size < kHead) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + kHead, size - kHead);
  check_result(data, text);
  check_number(text);
  check_text(data);
  return 0;
}
