// Rows of numbers as JSON arrays.
#include "core/wire/row_text.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "core/wire/value_text.h"

namespace tokengrad {
namespace {

/// How many values are 0 before the first one that is not. The bits `ignored` may be anything.
template <typename T, auto ignored>
size_t count_zeros(const void* values, size_t begin, size_t count) {
  using Bits = std::remove_const_t<decltype(ignored)>;
  constexpr size_t kBlock = 256;
  const T* from = static_cast<const T*>(values) + begin;
  const auto bits = [from](size_t i) { return std::bit_cast<Bits>(from[i]); };
  for (size_t done = 0; done < count; done += kBlock) {
    const size_t end = std::min(count, done + kBlock);
    Bits any = 0;
    for (size_t i = done; i < end; ++i) any |= bits(i);
    if ((any & ~ignored) == 0) continue;
    size_t other = done;
    while (other < end && (bits(other) & ~ignored) == 0) ++other;
    if (other < end) return other;
  }
  return count;
}

size_t count_zeros(const TextRow& row, size_t begin, size_t count) {
  switch (row.type) {
    case RowType::kFloat32:
      return count_zeros<float, uint32_t{1} << 31>(row.values, begin, count);
    case RowType::kFloat64:
      return count_zeros<double, uint64_t{1} << 63>(row.values, begin, count);
    case RowType::kBfloat16:
      return count_zeros<uint16_t, uint16_t{1 << 15}>(row.values, begin, count);
    case RowType::kInt32:
      return count_zeros<int32_t, uint32_t{0}>(row.values, begin, count);
    case RowType::kInt64:
      return count_zeros<int64_t, uint64_t{0}>(row.values, begin, count);
  }
  return 0;
}

char* write_zeros(size_t count, char* out) {
  for (size_t i = 0; i < count; ++i) std::memcpy(out + 2 * i, "0,", 2);
  return out + 2 * count;
}

/// Takes the next positions as stretches of zeros and of values.
template <typename Zeros, typename Values>
void walk(const TextRow& row, TextCursor& cursor, size_t end, const Zeros& zeros,
          const Values& values) {
  const auto take = [&](size_t count) {
    values(cursor.position, row.packed ? cursor.value : cursor.position, count);
    cursor.position += count;
    cursor.value += count;
  };
  if (!row.runs) return take(end - cursor.position);
  const std::span<const uint32_t> runs = *row.runs;
  while (cursor.position < end) {
    const bool last = 2 * cursor.run >= runs.size();
    const size_t run_begin = last ? row.length : runs[2 * cursor.run];
    const size_t run_end = last ? row.length : run_begin + runs[2 * cursor.run + 1];
    if (cursor.position < run_begin) {
      const size_t until = std::min(end, run_begin);
      zeros(cursor.position, until - cursor.position);
      cursor.position = until;
    } else {
      take(std::min(end, run_end) - cursor.position);
      if (cursor.position == run_end) ++cursor.run;
    }
  }
}

}  // namespace

char* write_positions(const TextRow& row, TextCursor& cursor, size_t end, char* out) {
  const WriteValues write = writer_of(row);
  walk(
      row, cursor, end,
      [&](size_t position, size_t count) {
        const size_t good = row.packed ? count : count_zeros(row, position, count);
        if (good < count) throw BadValue{position + good};
        out = write_zeros(count, out);
      },
      [&](size_t position, size_t value, size_t count) {
        const Written written = write(row, value, count, out);
        if (written.count < count) throw BadValue{position + written.count};
        out = written.out;
      });
  return out;
}

void skip_positions(const TextRow& row, TextCursor& cursor, size_t end) {
  walk(row, cursor, end, [](size_t, size_t) {}, [](size_t, size_t, size_t) {});
}

}  // namespace tokengrad
