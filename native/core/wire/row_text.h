// Rows of numbers as JSON arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace tokengrad {

/// How a row's values lie in memory.
enum class RowType { kFloat32, kFloat64, kBfloat16, kInt32, kInt64 };

/// What a row's values may be. `kNumber`: finite float32 or bfloat16. `kWeight`: 0, or a float32
/// above 0. `kId`: a whole number of at least 0; `kQuotedId` is the same with numbers above
/// 2^53 - 1 in quotes, since many readers hold numbers as float64.
enum class RowRule { kNumber, kWeight, kId, kQuotedId };

/// One row. Its memory is read in place.
struct TextRow {
  RowType type;
  RowRule rule;
  /// All positions', or if `packed` those of the runs one after the other.
  const void* values;
  /// Positions of the row.
  size_t length;
  /// First position and length of each run; the positions outside of them hold 0, of either sign.
  /// Without runs every position has its value.
  std::optional<std::span<const uint32_t>> runs;
  bool packed = false;
  /// The largest id, or weight, that is written: what is larger is refused.
  uint64_t most = kAnyValue;

  static constexpr uint64_t kAnyValue = std::numeric_limits<int64_t>::max();
};

/// A value that cannot be written, or is not 0 outside of the runs.
struct BadValue {
  size_t position;
};

/// Looks at the row's ids or weights to set `most`, so that little memory is taken for their text:
/// ids have fewer digits than their type could hold, and weights are 0 and 1 nearly always.
void find_most(TextRow& row);

/// Bytes that the text of one position takes at most, with its comma.
size_t most_bytes(const TextRow& row);

/// How far a row is written.
struct TextCursor {
  size_t position = 0;
  /// Values of the runs that came before, and the runs that lie behind.
  size_t value = 0;
  size_t run = 0;
};

/// Writes the values of the next positions, up to `end`, each with a comma behind it, and gives the
/// end of the text. Touches up to `kNumberRoom` bytes more. Throws `BadValue`.
char* write_positions(const TextRow& row, TextCursor& cursor, size_t end, char* out);
/// Goes past positions without writing them.
void skip_positions(const TextRow& row, TextCursor& cursor, size_t end);

}  // namespace tokengrad
