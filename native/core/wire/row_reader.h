// Reads the values of a row of a result.
#pragma once

#include <string>

#include "core/wire/row_cursor.h"

namespace tokengrad {

/// What JSON takes for white space.
inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/// Begins behind the row's opening bracket. A copy reads on by itself from where it was made.
class RowReader {
 public:
  RowReader() = default;
  explicit RowReader(const RowCursor& row) : row_(row) {}

  const RowCursor& row() const { return row_; }
  /// Whether the row's closing bracket has been read.
  bool ended() const { return state_ == State::kEnded; }
  /// Whether the next value has not begun, and may come next.
  bool before_value() const { return state_ == State::kElement; }

  /// Reads to `end`, or to behind the closing bracket, and gives how far it came. Memory can be
  /// read up to `room`, at least `end`: the values before it are read faster the more there is.
  const char* read(const char* at, const char* end, const char* room);
  /// Reads on with a value that is under way, and to behind its comma.
  const char* read_to_value(const char* at, const char* end);
  /// Passes over values, each with a comma behind it, that a copy reads. Only before a value.
  /// Throws where the row is full.
  void skip(size_t values);

 private:
  enum class State {
    kElement,  // before a value, or before the end of an empty row
    kToken,    // in a value that goes on with the next bytes
    kBehind,   // behind a value
    kEnded,
  };

  const char* step(const char* at, const char* end, const char* room);
  const char* numbers(const char* at, const char* end, const char* room);
  const char* token(const char* at, const char* end);

  RowCursor row_;
  State state_ = State::kElement;
  /// The row has no value yet.
  bool first_ = true;
  /// The value that is being read, as far as it came.
  std::string text_;
};

}  // namespace tokengrad
