// Ops that look at whole segments or whole arrays at once. Plain loops on the CPU, for all
// executors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tokengrad {

/// Offsets of segments: segment s holds the elements offsets[s] to offsets[s + 1].
using Offsets = std::span<const int64_t>;

struct CumsumOptions {
  /// From the end of each segment instead of its beginning.
  bool reverse;
  /// Without the element itself.
  bool exclusive;
  /// Each step multiplies what was summed before by this.
  double discount;
};

/// Running sums of each segment, accumulated in double. T is float or double.
template <typename T>
void cumsum(std::span<const T> values, Offsets segments, const CumsumOptions& options,
            std::span<T> out);

/// Element t of each segment gets element t - offset of the same segment, and 0 where there is
/// none.
template <typename T>
void shift(std::span<const T> values, Offsets segments, int64_t offset, std::span<T> out);

/// The batch-wide numbers of each segment's elements in ascending order of their values. Stable;
/// NaN comes last.
void argsort(std::span<const double> values, Offsets segments, std::span<double> out);

/// The place, from 0, that each element has in the ascending order of its segment. Stable; NaN
/// comes last. Throws `ERR_REQUEST` where a segment has more than 2^24 elements and T is float,
/// which does not hold all larger numbers.
template <typename T>
void rank(std::span<const T> values, Offsets segments, std::span<T> out);

/// Throws `ERR_INDEX` (facts `element`, `value`, `size`) where an index is not a whole number below
/// `size`.
void check_index(std::span<const double> index, size_t size);

/// out[i] = values[index[i]]. Throws as `check_index` does.
void gather(std::span<const double> values, std::span<const double> index, std::span<double> out);

/// out[index[i]] += values[i], from zeros, in the order of i. Throws as `check_index` does.
void scatter_add(std::span<const double> values, std::span<const double> index,
                 std::span<double> out);

/// The batch-wide number of sample `index` of each group. Throws `ERR_GROUP_SIZE` (facts `index`,
/// `group`, `size`) where a group is too small.
void members(std::span<const uint32_t> group_sizes, int64_t index, std::span<double> out);

}  // namespace tokengrad
