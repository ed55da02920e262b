// The rows of numbers that a result brings: where they go, and what is wrong with them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace tokengrad {

/// What is wrong with a result: a text that is no JSON or is cut off is garbled, and may be better
/// when it comes again; whatever else came will come again.
enum class Fault { kWrong, kGarbled };

/// Throws `ERR_RESULT`, for a garbled text with the fact `reason`, which is then `garbled`.
[[noreturn]] void fail_result(const std::string& problem, Fault fault, Error::Facts facts = {});

/// The rows that are expected, one a sample. The spans are read in place.
struct RowsSpec {
  /// Positions of each row.
  std::span<const uint32_t> lengths;
  /// Runs of trained positions in each row: how many, and first position and length of each.
  std::span<const uint32_t> run_counts;
  std::span<const uint32_t> runs;
  /// Where the values go: those of all positions, or if `packed` those of the trained ones only.
  std::span<float> out;
  bool packed;
};

/// What comes row by row is written to its place. All faults are `ERR_RESULT` with the facts
/// `sample` and `position`, as far as they are known.
class ResultRows {
 public:
  /// Throws `ERR_REQUEST` if the parts of the spec do not fit together.
  explicit ResultRows(const RowsSpec& spec);

  size_t samples() const { return spec_.lengths.size(); }
  /// Rows that have been read to their end.
  size_t complete() const { return complete_; }
  size_t sample() const { return sample_; }
  /// The position of the value that comes next.
  size_t position() const { return position_; }

  /// Throws if there is no such sample, or its row has come already.
  void begin(size_t sample);
  /// Throws if the row is too short.
  void end();

  /// How many values may come that are alike: all trained or none. At least 1; throws where the row
  /// is full.
  size_t stretch();
  bool trained() const { return trained_; }
  /// Where the next value goes. One that is not kept may be written there too, if there is room.
  float* target() { return target_; }
  bool kept() const { return trained_ || !spec_.packed; }
  /// Values have been written by the caller; at most as many as `stretch` told.
  void advance(size_t count) {
    position_ += count;
    if (kept()) target_ += count;
  }

  /// A value that came as text: a number, null, or something wrong.
  void take(std::string_view text);

  /// Throws `ERR_RESULT` for the row or the value that is due.
  [[noreturn]] void fail_row(const std::string& problem) const;
  [[noreturn]] void fail_value(const std::string& problem, Fault fault) const;
  /// Throws if some rows have come but not all.
  void check_complete() const;

 private:
  struct Start {
    uint64_t position;
    uint64_t run;
    uint64_t trained;
  };

  RowsSpec spec_;
  std::vector<Start> starts_;
  std::vector<bool> seen_;
  size_t complete_ = 0;
  size_t sample_ = 0;
  size_t position_ = 0;
  /// The run that is under way or comes next, and where the stretch under way ends.
  size_t run_ = 0;
  size_t stretch_end_ = 0;
  bool trained_ = false;
  float* target_ = nullptr;
};

}  // namespace tokengrad
