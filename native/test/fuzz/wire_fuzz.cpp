// The fuzz target of the wire: results of any form are read alike however they are cut, and numbers
// as the standard library reads them. The entry point is libFuzzer's.
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/wire/decimal_text.h"
#include "core/wire/number_reader.h"
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

/// Reads a text in parts of up to `most` bytes, each in memory of its own size.
Outcome read(std::string_view text, uint32_t seed, size_t most, bool packed) {
  static const std::vector<uint32_t> lengths{3, 1, 4};
  static const std::vector<uint32_t> run_counts{1, 0, 2};
  static const std::vector<uint32_t> runs{1, 2, 0, 1, 3, 1};
  Outcome outcome;
  outcome.values.assign(packed ? 4 : 8, 0);
  ResultReader reader({"output", "rows", "*", "data"},
                      {lengths, run_counts, runs, outcome.values, packed},
                      {.bytes = 1 << 20, .other_bytes = 1 << 20, .depth = 16});
  std::minstd_rand random(seed);
  try {
    while (!text.empty()) {
      const std::string_view part = text.substr(0, random() % most + 1);
      const std::vector<char> bytes(part.begin(), part.end());
      reader.push({bytes.data(), bytes.size()});
      text.remove_prefix(part.size());
    }
    reader.finish();
    outcome.rest = reader.rest();
    require(reader.complete_rows() == 0 || reader.complete_rows() == lengths.size());
    for (const float value : outcome.values) require(std::isfinite(value));
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
  const Outcome whole = read(text, 1, text.size() + 1, packed);
  require(read(text, seed, head[3] % 100 + 1, packed) == whole);
  require(read(text, seed, 1, packed) == whole);
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
