// Reads a JSON text as it arrives: long rows of numbers go straight to their buffer, everything
// else is kept as the JSON text that it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/wire/passage.h"
#include "core/wire/result_rest.h"
#include "core/wire/result_rows.h"
#include "core/wire/row_place.h"
#include "core/wire/row_reader.h"

namespace tokengrad {

/// Bounds of what a text may make a reader hold. The rows are bounded by their buffer.
struct ReadLimits {
  /// Bytes of what is not in the rows.
  size_t other_bytes = size_t{64} << 20;
  /// Arrays and objects within each other.
  size_t depth = 64;
};

/// Whatever is in the rows is checked here. The rest is given back with every row's array left
/// empty: it is valid JSON if, and only if, the whole text was. Of elements of the samples' array
/// that are left alike one behind the other, one is given: there may be very many.
class ResultReader {
 public:
  /// Throws `ERR_REQUEST` if the path or the rows are no good.
  ResultReader(RowPath path, const RowsSpec& rows, const ReadLimits& limits = {});

  /// The next bytes. They are not needed any more afterwards, but for passages that are left, if
  /// there is a place for them: whoever calls must read these all. Throws `ERR_RESULT`, and then no
  /// more may be pushed; a fault in a passage that was left before is the one that came first.
  void push(std::string_view bytes, Passages* later = nullptr);
  /// Throws `ERR_RESULT` if the text is not at its end, or has rows of some samples only.
  void finish();

  /// The text without the rows' numbers.
  const std::string& rest() const { return rest_.text(); }
  size_t complete_rows() const { return rows_.complete(); }

 private:
  enum class State {
    kStructure,  // between values
    kString,
    kEscape,  // behind a backslash
    kRow,
  };

  const char* structure(const char* at, const char* end);
  const char* string(const char* at, const char* end);
  const char* row(const char* at, const char* end, Passages* later);
  void open(char bracket);
  void end_row();
  RowCursor begin_row() { return rows_.begin(place_.sample()); }

  RowPlace place_;
  ResultRows rows_;
  /// The row that is being read.
  RowReader row_;
  ResultRest rest_;
  uint64_t bytes_ = 0;
  State state_ = State::kStructure;
  /// The key that is being read, as far as it came.
  std::string text_;
  bool in_key_ = false;
  /// Something other than white space has come.
  bool begun_ = false;
};

}  // namespace tokengrad
