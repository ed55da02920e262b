// The rows of numbers that a result brings: where each goes, and which have come.
#include "core/wire/result_rows.h"

#include <algorithm>

namespace tokengrad {
namespace {

[[noreturn]] void refuse(const std::string& problem) { throw Error("ERR_REQUEST", problem); }

}  // namespace

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
  const uint64_t size = spec.packed ? start.trained : start.position;
  if (spec.out.size() != size) {
    refuse("output: expected " + std::to_string(size) + " numbers, got " +
           std::to_string(spec.out.size()));
  }
}

RowCursor ResultRows::begin(size_t sample) {
  if (sample >= samples()) {
    fail_result("expected " + std::to_string(samples()) + " entries, one per sample, got more",
                Fault::kWrong);
  }
  const Start& start = starts_[sample];
  const RowCursor row({.sample = sample,
                       .length = spec_.lengths[sample],
                       .runs = spec_.runs.subspan(2 * start.run, 2 * spec_.run_counts[sample]),
                       .target = spec_.out.data() + (spec_.packed ? start.trained : start.position),
                       .packed = spec_.packed});
  if (seen_[sample]) row.fail_row("expected one row, got a second one");
  seen_[sample] = true;
  return row;
}

void ResultRows::check_complete() const {
  if (complete_ == 0 || complete_ == samples()) return;
  const auto missing = std::find(seen_.begin(), seen_.end(), false) - seen_.begin();
  fail_result("sample " + std::to_string(missing) + ": expected a row, got none", Fault::kWrong,
              {{"sample", static_cast<double>(missing)}});
}

}  // namespace tokengrad
