// Rows of numbers as JSON arrays.
#include "core/wire/row_text.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <type_traits>

#include "core/wire/bfloat16_text.h"
#include "core/wire/decimal_text.h"
#include "core/wire/float_digits.h"

namespace tokengrad {
namespace {

constexpr uint64_t kLargestExact = (uint64_t{1} << 53) - 1;

/// What `write_values` calls for each value: puts the text and a comma, or gives null.
template <RowType type, RowRule rule>
struct Format;

template <>
struct Format<RowType::kBfloat16, RowRule::kNumber> {
  using Value = uint16_t;
  const Bfloat16Texts& texts;
  explicit Format(const TextRow&) : texts(bfloat16_texts()) {}
  char* operator()(uint16_t bits, char* out) const {
    if ((bits & 0x7f80) == 0x7f80) return nullptr;
    return write_bfloat16(texts, bits, out);
  }
};

/// Weights are 0 and 1 nearly always. One so small that it rounds to 0 would leave its position out
/// silently.
template <typename T>
struct WeightFormat {
  using Value = T;
  bool only_0_and_1;
  explicit WeightFormat(const TextRow& row) : only_0_and_1(row.most == 1) {}
  char* operator()(T value, char* out) const {
    if (value == 0 || value == 1) {
      std::memcpy(out, value == 0 ? "0," : "1,", 2);
      return out + 2;
    }
    const float rounded = static_cast<float>(value);
    if (only_0_and_1 || !(rounded > 0) || !std::isfinite(rounded)) return nullptr;
    out = write_float32(rounded, out);
    *out = ',';
    return out + 1;
  }
};
template <>
struct Format<RowType::kFloat32, RowRule::kWeight> : WeightFormat<float> {
  using WeightFormat::WeightFormat;
};
template <>
struct Format<RowType::kFloat64, RowRule::kWeight> : WeightFormat<double> {
  using WeightFormat::WeightFormat;
};

template <typename T, bool quoted>
struct IdFormat {
  using Value = T;
  uint64_t most;
  explicit IdFormat(const TextRow& row) : most(row.most) {}
  char* operator()(T value, char* out) const {
    // A negative one becomes larger than any.
    const auto number = static_cast<uint64_t>(value);
    if (number > most) return nullptr;
    const bool quotes = quoted && number > kLargestExact;
    if (quotes) *out++ = '"';
    out = write_whole(number, out);
    if (quotes) *out++ = '"';
    *out = ',';
    return out + 1;
  }
};
template <>
struct Format<RowType::kInt32, RowRule::kId> : IdFormat<int32_t, false> {
  using IdFormat::IdFormat;
};
template <>
struct Format<RowType::kInt64, RowRule::kId> : IdFormat<int64_t, false> {
  using IdFormat::IdFormat;
};
template <>
struct Format<RowType::kInt64, RowRule::kQuotedId> : IdFormat<int64_t, true> {
  using IdFormat::IdFormat;
};

/// Writes neighbouring values, and gives how many were written before one that cannot be.
struct Written {
  char* out;
  size_t count;
};

/// Numbers, a block at a time.
template <typename T>
Written write_floats(const TextRow& row, size_t begin, size_t count, char* out) {
  static const FindDigits find = find_digits();
  const T* from = static_cast<const T*>(row.values) + begin;
  std::array<uint32_t, kFloatBlock> bits;
  FloatDigits digits;
  for (size_t done = 0; done < count; done += kFloatBlock) {
    const size_t block = std::min(count - done, kFloatBlock);
    for (size_t i = 0; i < block; ++i) {
      bits[i] = std::bit_cast<uint32_t>(static_cast<float>(from[done + i]));
    }
    find(bits.data(), block, digits);
    for (size_t i = 0; i < block; ++i) {
      const uint32_t exponent = bits[i] >> 23 & 0xff;
      if (exponent == 0xff) return {out, done + i};
      if (exponent == 0) {
        out = write_float32(std::bit_cast<float>(bits[i]), out);
      } else {
        *out = '-';
        out += bits[i] >> 31;
        out = write_digits(digits.first[i], digits.others[i], digits.leading[i], out);
      }
      *out++ = ',';
    }
  }
  return {out, count};
}

template <RowType type, RowRule rule>
Written write_values(const TextRow& row, size_t begin, size_t count, char* out) {
  const Format<type, rule> format(row);
  const auto* from = static_cast<const typename Format<type, rule>::Value*>(row.values) + begin;
  for (size_t i = 0; i < count; ++i) {
    char* const next = format(from[i], out);
    if (next == nullptr) return {out, i};
    out = next;
  }
  return {out, count};
}

using Write = Written (*)(const TextRow& row, size_t begin, size_t count, char* out);

Write writer_of(const TextRow& row) {
  const bool weight = row.rule == RowRule::kWeight;
  const bool quoted = row.rule == RowRule::kQuotedId;
  switch (row.type) {
    case RowType::kFloat32:
      return weight ? write_values<RowType::kFloat32, RowRule::kWeight> : write_floats<float>;
    case RowType::kFloat64:
      return weight ? write_values<RowType::kFloat64, RowRule::kWeight> : write_floats<double>;
    case RowType::kBfloat16:
      return write_values<RowType::kBfloat16, RowRule::kNumber>;
    case RowType::kInt32:
      return write_values<RowType::kInt32, RowRule::kId>;
    case RowType::kInt64:
      return quoted ? write_values<RowType::kInt64, RowRule::kQuotedId>
                    : write_values<RowType::kInt64, RowRule::kId>;
  }
  return nullptr;
}

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
  const Write write = writer_of(row);
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
