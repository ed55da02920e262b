// The values of a row as text, by their type and rule.
#include "core/wire/value_text.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

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

}  // namespace

WriteValues writer_of(const TextRow& row) {
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

}  // namespace tokengrad
