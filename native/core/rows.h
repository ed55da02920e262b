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

/// A store for any CPU. T is float or double.
template <typename T>
Store<T> plain_store(Dtype dtype);

/// Writes the gradients of a batch. `out` has one value of the dtype per position.
template <typename T>
class RowWriter {
 public:
  RowWriter(const Layout& layout, Dtype dtype, Store<T> store, std::byte* out)
      : layout_(layout), size_(static_cast<int64_t>(bytes_of(dtype))), store_(store), out_(out) {}

  /// Writes the next tokens of a sample, and zeros to the positions before and between them. Gives
  /// the first of these tokens whose value is not finite once it is stored, or `count` if all are.
  int64_t write(RowCursor& cursor, const T* values, int64_t count) const;
  /// Writes zeros up to the end of the sample's row.
  void finish(RowCursor& cursor, int64_t sample) const;

 private:
  void write_zeros(int64_t begin, int64_t end) const;

  const Layout& layout_;
  const int64_t size_;
  const Store<T> store_;
  std::byte* const out_;
};

extern template class RowWriter<float>;
extern template class RowWriter<double>;

}  // namespace tokengrad
