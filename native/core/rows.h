// Full rows of gradients, written piece by piece: zeros wherever a position is not trained.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "core/layout.h"

namespace tokengrad {

/// How far the row of one sample is written.
struct RowCursor {
  /// First position of the row, and the first one that is not written yet, in the whole batch.
  int64_t row;
  int64_t position;
  /// The run that the next token is of, and how many of its tokens came before.
  int64_t run;
  int64_t taken;
};

RowCursor begin_row(const Layout& layout, int64_t sample);

/// Goes past the next tokens, and the positions up to the last of them, without writing.
void skip_tokens(const Layout& layout, RowCursor& cursor, int64_t tokens);

/// How values of type T are written as a dtype. `out` is the buffer of the whole batch, one value
/// of the dtype per position.
template <typename T>
struct RowWriter {
  /// Writes the sample's next tokens and zeros to the positions before and between them. Gives the
  /// first of the tokens whose value is not finite once it is stored, or `count` if all are.
  int64_t (*write)(const Layout& layout, RowCursor& cursor, const T* values, int64_t count,
                   std::byte* out);
  /// Writes zeros up to the end of the row.
  void (*finish)(const Layout& layout, RowCursor& cursor, int64_t sample, std::byte* out);
};

/// T is float or double.
template <typename T>
RowWriter<T> row_writer(Dtype dtype);

}  // namespace tokengrad
