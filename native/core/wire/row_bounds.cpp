// How long the text of a row may become.
#include <algorithm>
#include <bit>
#include <limits>

#include "core/wire/row_text.h"

namespace tokengrad {
namespace {

constexpr size_t kFloatBytes = 15;     // -0.00123456789, or -12345678e-45
constexpr size_t kBfloat16Bytes = 11;  // -0.001234
constexpr size_t kZeroOrOneBytes = 2;
constexpr size_t kQuotes = 2;
constexpr uint64_t kLargestExact = (uint64_t{1} << 53) - 1;

/// Values that are looked at in one go: a loop of known length is vectorised.
constexpr size_t kBlock = 256;

/// All bits that any of the values has.
template <typename Bits, typename Part>
Bits all_bits(const void* values, size_t count, const Part& part) {
  const auto* from = static_cast<const Bits*>(values);
  Bits all = 0;
  size_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    for (size_t k = 0; k < kBlock; ++k) all |= part(from[i + k]);
  }
  for (; i < count; ++i) all |= part(from[i]);
  return all;
}

/// A number of only ones in binary that is not exceeded by any of the ids. Negative ones do not
/// count: they are never written.
template <typename Bits>
uint64_t most_id(const void* values, size_t count) {
  const Bits all = all_bits<Bits>(values, count, [](Bits id) { return id; });
  const int width = std::min<int>(std::bit_width(all), std::numeric_limits<Bits>::digits - 1);
  return (uint64_t{1} << width) - 1;
}

template <typename Bits>
uint64_t most_weight(const void* values, size_t count, Bits one) {
  const auto other = [one](Bits bits) { return static_cast<Bits>(bits != 0) & (bits != one); };
  return all_bits<Bits>(values, count, other) == 0 ? 1 : TextRow::kAnyValue;
}

size_t digits(uint64_t number) {
  size_t count = 1;
  for (; number > 9; number /= 10) ++count;
  return count;
}

}  // namespace

void find_most(TextRow& row) {
  const bool weight = row.rule == RowRule::kWeight;
  // What is packed has fewer values than positions: a few bytes too many do no harm.
  if (row.packed) return;
  if (row.type == RowType::kInt32) row.most = most_id<uint32_t>(row.values, row.length);
  if (row.type == RowType::kInt64) row.most = most_id<uint64_t>(row.values, row.length);
  if (weight && row.type == RowType::kFloat32) {
    row.most = most_weight<uint32_t>(row.values, row.length, std::bit_cast<uint32_t>(1.0f));
  }
  if (weight && row.type == RowType::kFloat64) {
    row.most = most_weight<uint64_t>(row.values, row.length, std::bit_cast<uint64_t>(1.0));
  }
}

size_t most_bytes(const TextRow& row) {
  switch (row.type) {
    case RowType::kBfloat16:
      return kBfloat16Bytes;
    case RowType::kInt32:
    case RowType::kInt64: {
      const bool quotes = row.rule == RowRule::kQuotedId && row.most > kLargestExact;
      return digits(row.most) + (quotes ? kQuotes : 0) + 1;
    }
    default:
      return row.rule == RowRule::kWeight && row.most == 1 ? kZeroOrOneBytes : kFloatBytes;
  }
}

}  // namespace tokengrad
