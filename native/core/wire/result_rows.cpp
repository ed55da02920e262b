// The rows of numbers that a result brings.
#include "core/wire/result_rows.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/wire/number_reader.h"

namespace tokengrad {
namespace {

[[noreturn]] void refuse(const std::string& problem) { throw Error("ERR_REQUEST", problem); }

/// The longest part of a wrong value that a message shows.
constexpr size_t kShown = 40;

std::string shown(std::string_view text) {
  std::string part(text.substr(0, kShown));
  std::replace_if(part.begin(), part.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text.size() > kShown ? part + "..." : part;
}

/// What came where a number should be. NaN and Infinity are no JSON, but numbers to some writers,
/// as a word or a string is another value; what begins with anything else is nothing at all.
Fault fault_of(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const char first = text.empty() ? '\0' : text[0];
  const char lower = static_cast<char>(first | 0x20);
  const bool value = (lower >= 'a' && lower <= 'z') || first == '"' || first == '[' || first == '{';
  return value ? Fault::kWrong : Fault::kGarbled;
}

}  // namespace

void fail_result(const std::string& problem, Fault fault, Error::Facts facts) {
  if (fault == Fault::kGarbled) facts.emplace_back("reason", "garbled");
  throw Error("ERR_RESULT", problem, std::move(facts));
}

ResultRows::ResultRows(const RowsSpec& spec) : spec_(spec), seen_(spec.lengths.size()) {
  if (spec.run_counts.size() != spec.lengths.size()) {
    refuse("runCounts: expected one a row, got " + std::to_string(spec.run_counts.size()));
  }
  Start start{};
  for (size_t sample = 0; sample < spec.lengths.size(); ++sample) {
    starts_.push_back(start);
    const uint64_t runs_end = start.run + spec.run_counts[sample];
    if (2 * runs_end > spec.runs.size()) refuse("runs: expected as many as runCounts tells");
    uint64_t free = 0;
    for (; start.run < runs_end; ++start.run) {
      const uint64_t begin = spec.runs[2 * start.run];
      const uint64_t length = spec.runs[2 * start.run + 1];
      if (begin < free || length == 0) refuse("runs: expected ascending runs");
      free = begin + length;
      start.trained += length;
    }
    if (free > spec.lengths[sample]) refuse("runs: expected runs within their rows");
    start.position += spec.lengths[sample];
  }
  if (2 * start.run != spec.runs.size()) refuse("runs: expected as many as runCounts tells");
  starts_.push_back(start);
  const uint64_t size = spec.packed ? start.trained : start.position;
  if (spec.out.size() != size) {
    refuse("output: expected " + std::to_string(size) + " numbers, got " +
           std::to_string(spec.out.size()));
  }
}

void ResultRows::begin(size_t sample) {
  sample_ = sample;
  position_ = 0;
  if (sample >= samples()) {
    fail_result("expected " + std::to_string(samples()) + " entries, one per sample, got more",
                Fault::kWrong);
  }
  if (seen_[sample]) fail_row("expected one row, got a second one");
  seen_[sample] = true;
  const Start& start = starts_[sample];
  target_ = spec_.out.data() + (spec_.packed ? start.trained : start.position);
  run_ = start.run;
  stretch_end_ = 0;
}

void ResultRows::end() {
  if (position_ < spec_.lengths[sample_]) {
    fail_row("expected " + std::to_string(spec_.lengths[sample_]) +
             " numbers, one per target, got " + std::to_string(position_));
  }
  ++complete_;
}

size_t ResultRows::stretch() {
  if (position_ < stretch_end_) return stretch_end_ - position_;
  const size_t length = spec_.lengths[sample_];
  if (position_ == length) {
    fail_row("expected " + std::to_string(length) + " numbers, one per target, got more");
  }
  const bool more = run_ < starts_[sample_ + 1].run;
  const size_t run_begin = more ? spec_.runs[2 * run_] : length;
  trained_ = position_ == run_begin;
  stretch_end_ = trained_ ? run_begin + spec_.runs[2 * run_++ + 1] : run_begin;
  return stretch_end_ - position_;
}

void ResultRows::take(std::string_view text) {
  stretch();
  const auto [number, end] = parse_number(text);
  const bool null = text == "null";
  if (end == nullptr && !null) fail_value("expected a number, got " + shown(text), fault_of(text));
  const bool usable = !null && std::isfinite(number);
  if (!usable && trained_) {
    fail_value("expected a finite number within float32's range, got " + shown(text),
               Fault::kWrong);
  }
  if (kept()) *target_ = usable ? number : 0;
  advance(1);
}

void ResultRows::fail_row(const std::string& problem) const {
  fail_result("sample " + std::to_string(sample_) + ": " + problem, Fault::kWrong,
              {{"sample", static_cast<double>(sample_)}});
}

void ResultRows::fail_value(const std::string& problem, Fault fault) const {
  fail_result(
      "sample " + std::to_string(sample_) + ", position " + std::to_string(position_) + ": " +
          problem,
      fault,
      {{"sample", static_cast<double>(sample_)}, {"position", static_cast<double>(position_)}});
}

void ResultRows::check_complete() const {
  if (complete_ == 0 || complete_ == samples()) return;
  const auto missing = std::find(seen_.begin(), seen_.end(), false) - seen_.begin();
  fail_result("sample " + std::to_string(missing) + ": expected a row, got none", Fault::kWrong,
              {{"sample", static_cast<double>(missing)}});
}

}  // namespace tokengrad
