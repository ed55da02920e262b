// A place in a row of a result: which value comes next, and where it goes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/wire/result_fault.h"

namespace tokengrad {

/// Where a row begins.
struct RowStart {
  size_t sample;
  /// Positions.
  size_t length;
  /// First position and length of each run of trained positions. Read in place.
  std::span<const uint32_t> runs;
  /// Where the values go: those of all positions, or if `packed` those of the trained ones only.
  float* target;
  bool packed;
};

/// Values are written to their place as they come. A copy goes on by itself from where it was made.
/// All faults are `ERR_RESULT` with the facts `sample` and `position`, as far as they are known.
class RowCursor {
 public:
  RowCursor() = default;
  explicit RowCursor(const RowStart& start) : row_(start), target_(start.target) {}

  /// How many values may come that are alike: all trained or none. At least 1; throws where the row
  /// is full.
  size_t stretch();
  /// Where the next value goes, if it is kept.
  float* target() const { return target_; }
  bool kept() const { return trained_ || !row_.packed; }
  /// Values have been written by the caller; at most as many as `stretch` told.
  void advance(size_t count) {
    position_ += count;
    if (kept()) target_ += count;
  }
  /// Passes over values that a copy writes. Throws where the row is full.
  void skip(size_t count);

  /// A value that came as text: a number, null, or something wrong.
  void take(std::string_view text);

  /// Throws if values are missing.
  void check_full() const;
  /// Throws `ERR_RESULT` for the row or the value that is due.
  [[noreturn]] void fail_row(const std::string& problem) const;
  [[noreturn]] void fail_value(const std::string& problem, Fault fault) const;

 private:
  RowStart row_{};
  /// The position of the value that comes next.
  size_t position_ = 0;
  /// The run that is under way or comes next, and where the stretch under way ends.
  size_t run_ = 0;
  size_t stretch_end_ = 0;
  bool trained_ = false;
  float* target_ = nullptr;
};

}  // namespace tokengrad
