// Full rows of gradients, written piece by piece: zeros wherever a position is not trained.
#include "core/rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

namespace tokengrad {
namespace {

/// Converts to the stored type, which for bfloat16 is its bits.
template <typename To, typename From>
To store_as(From value) {
  if constexpr (std::is_same_v<To, uint16_t>) {
    return to_bfloat16(value);
  } else {
    return static_cast<To>(value);
  }
}

/// All ones in the exponent: infinity or NaN. In integers, so that the compiler can do many at
/// once.
bool is_special(float value) {
  return (std::bit_cast<uint32_t>(value) & 0x7F800000u) == 0x7F800000u;
}
bool is_special(double value) {
  constexpr uint64_t exponent = 0x7FF0000000000000u;
  return (std::bit_cast<uint64_t>(value) & exponent) == exponent;
}
bool is_special(uint16_t bits) { return (bits & 0x7F80u) == 0x7F80u; }

template <typename To, typename From>
bool store(const From* values, int64_t count, std::byte* out) {
  To* const to = reinterpret_cast<To*>(out);
  bool special = false;
  for (int64_t i = 0; i < count; ++i) {
    to[i] = store_as<To>(values[i]);
    special |= is_special(to[i]);
  }
  return !special;
}

/// Takes the next tokens as far as they lie in one run: how many these are.
int64_t take_tokens(const Layout& layout, RowCursor& cursor, int64_t tokens) {
  const int64_t start = layout.runs()[2 * cursor.run];
  const int64_t length = layout.runs()[2 * cursor.run + 1];
  const int64_t piece = std::min(tokens, length - cursor.taken);
  cursor.taken += piece;
  cursor.position = cursor.row + start + cursor.taken;
  if (cursor.taken == length) {
    ++cursor.run;
    cursor.taken = 0;
  }
  return piece;
}

}  // namespace

RowCursor begin_row(const Layout& layout, int64_t sample) {
  const Row& row = layout.rows()[sample];
  return {row.position, row.position, row.run, 0};
}

void skip_tokens(const Layout& layout, RowCursor& cursor, int64_t tokens) {
  while (tokens > 0) tokens -= take_tokens(layout, cursor, tokens);
}

template <typename T>
Store<T> plain_store(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBfloat16:
      return store<uint16_t, T>;
    case Dtype::kFloat64:
      return store<double, T>;
    case Dtype::kFloat32:
      break;
  }
  return store<float, T>;
}

template <typename T>
int64_t RowWriter<T>::write(RowCursor& cursor, const T* values, int64_t count) const {
  int64_t first = count;
  for (int64_t done = 0; done < count;) {
    const int64_t from = cursor.position;
    const int64_t piece = take_tokens(layout_, cursor, count - done);
    const int64_t start = cursor.position - piece;
    write_zeros(from, start);
    std::byte* const to = out_ + start * size_;
    if (!store_(values + done, piece, to) && first == count) {
      int64_t token = 0;
      while (store_(values + done + token, 1, to + token * size_)) ++token;
      first = done + token;
    }
    done += piece;
  }
  return first;
}

template <typename T>
void RowWriter<T>::finish(RowCursor& cursor, int64_t sample) const {
  const int64_t end = layout_.rows()[sample + 1].position;
  write_zeros(cursor.position, end);
  cursor.position = end;
}

template <typename T>
void RowWriter<T>::write_zeros(int64_t begin, int64_t end) const {
  if (begin < end) std::memset(out_ + begin * size_, 0, static_cast<size_t>((end - begin) * size_));
}

template Store<float> plain_store(Dtype);
template Store<double> plain_store(Dtype);
template class RowWriter<float>;
template class RowWriter<double>;

}  // namespace tokengrad
