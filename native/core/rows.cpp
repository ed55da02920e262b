// Full rows of gradients, written piece by piece: zeros wherever a position is not trained.
#include "core/rows.h"

#include <algorithm>
#include <bit>
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

/// Gives the first value that is not finite once it is stored, or `count`.
template <typename To, typename From>
int64_t write_run(const From* in, To* out, int64_t count) {
  bool special = false;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = store_as<To>(in[i]);
    special |= is_special(out[i]);
  }
  return special ? std::find_if(out, out + count, [](To x) { return is_special(x); }) - out : count;
}

template <typename To, typename From>
int64_t write(const Layout& layout, RowCursor& cursor, const From* values, int64_t count,
              std::byte* out) {
  To* const rows = reinterpret_cast<To*>(out);
  int64_t first = count;
  for (int64_t done = 0; done < count;) {
    const int64_t start = cursor.row + layout.runs()[2 * cursor.run] + cursor.taken;
    const int64_t length = layout.runs()[2 * cursor.run + 1];
    const int64_t piece = std::min(count - done, length - cursor.taken);
    std::fill(rows + cursor.position, rows + start, To{0});
    const int64_t special = write_run(values + done, rows + start, piece);
    if (special < piece) first = std::min(first, done + special);
    done += piece;
    cursor.position = start + piece;
    cursor.taken += piece;
    if (cursor.taken == length) cursor = {cursor.row, cursor.position, cursor.run + 1, 0};
  }
  return first;
}

template <typename To>
void finish(const Layout& layout, RowCursor& cursor, int64_t sample, std::byte* out) {
  To* const rows = reinterpret_cast<To*>(out);
  const int64_t end = layout.rows()[sample + 1].position;
  std::fill(rows + cursor.position, rows + end, To{0});
  cursor.position = end;
}

}  // namespace

RowCursor begin_row(const Layout& layout, int64_t sample) {
  const Row& row = layout.rows()[sample];
  return {row.position, row.position, row.run, 0};
}

void skip_tokens(const Layout& layout, RowCursor& cursor, int64_t tokens) {
  while (tokens > 0) {
    const int64_t length = layout.runs()[2 * cursor.run + 1];
    const int64_t piece = std::min(tokens, length - cursor.taken);
    tokens -= piece;
    cursor.taken += piece;
    cursor.position = cursor.row + layout.runs()[2 * cursor.run] + cursor.taken;
    if (cursor.taken == length) cursor = {cursor.row, cursor.position, cursor.run + 1, 0};
  }
}

template <typename T>
RowWriter<T> row_writer(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBfloat16:
      return {write<uint16_t, T>, finish<uint16_t>};
    case Dtype::kFloat64:
      return {write<double, T>, finish<double>};
    case Dtype::kFloat32:
      break;
  }
  return {write<float, T>, finish<float>};
}

template RowWriter<float> row_writer(Dtype);
template RowWriter<double> row_writer(Dtype);

}  // namespace tokengrad
