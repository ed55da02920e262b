// A batch cut into pieces of work for threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/layout.h"
#include "core/rows.h"

namespace tokengrad::fused {

/// Tokens of a unit at most. Part of the results: sums are added up unit by unit.
constexpr int64_t kUnitTokens = 16384;

/// Consecutive trained tokens of one sample. A sample without any is one empty unit.
struct Unit {
  int64_t sample;
  int64_t group;
  int64_t begin;
  int64_t end;
  /// Where the unit's tokens begin in the sample's row.
  RowCursor row;
  /// Whether the rest of the row belongs to this unit.
  bool is_last;
};

/// How a batch is cut depends on its samples alone, whatever the number of threads.
std::vector<Unit> make_units(const Layout& layout);

}  // namespace tokengrad::fused
