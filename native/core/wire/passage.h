// Passages of a row that are left to be read later, by anyone.
#pragma once

#include <string_view>
#include <vector>

#include "core/wire/row_reader.h"

namespace tokengrad {

/// Some values of a row, each with the comma behind it, whose number is known and whose places are
/// in the row.
struct Passage {
  RowReader reader;
  const char* begin;
  const char* end;
  /// Memory can be read up to here.
  const char* room;

  /// Throws `ERR_RESULT`. May run on any thread while the text's memory is there.
  void read() { reader.read(begin, end, room); }
};

struct Passages {
  /// Bytes of a passage that is worth it.
  size_t least;
  /// In the text's order.
  std::vector<Passage> found;
};

/// Leaves what can be left of the row's values up to `end`, and gives how far that is. Throws
/// `ERR_RESULT` where that is more than the row has room for. Whatever is wrong with the values is
/// found when the passage is read, at its place.
const char* leave_passage(RowReader& row, const char* at, const char* end, Passages& passages);

}  // namespace tokengrad
