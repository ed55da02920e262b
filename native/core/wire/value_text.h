// The values of a row as text, by their type and rule.
#pragma once

#include <cstddef>

#include "core/wire/row_text.h"

namespace tokengrad {

/// How far values were written: the end of their text, and how many they are. Fewer than were asked
/// for if the next one cannot be written, so that the caller, which knows positions, names it.
struct Written {
  char* out;
  size_t count;
};

/// Writes `count` values from the one at `begin` of those in memory, each with a comma behind it.
/// Touches up to `kNumberRoom` bytes more.
using WriteValues = Written (*)(const TextRow& row, size_t begin, size_t count, char* out);

WriteValues writer_of(const TextRow& row);

}  // namespace tokengrad
