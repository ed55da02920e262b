// The rows of numbers that a result brings: where each goes, and which have come.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/wire/row_cursor.h"

namespace tokengrad {

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

class ResultRows {
 public:
  /// Throws `ERR_REQUEST` if the parts of the spec do not fit together.
  explicit ResultRows(const RowsSpec& spec);

  size_t samples() const { return spec_.lengths.size(); }
  /// Rows that have been read to their end.
  size_t complete() const { return complete_; }

  /// Throws `ERR_RESULT` if there is no such sample, or its row has come already.
  RowCursor begin(size_t sample);
  /// The row ends here. Throws `ERR_RESULT` if it is too short.
  void end(const RowCursor& row) {
    row.check_full();
    ++complete_;
  }
  /// Throws `ERR_RESULT` if some rows have come but not all.
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
};

}  // namespace tokengrad
