// Ops that look at whole segments or whole arrays at once.
#include "core/arrays.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>
#include <string>

#include "core/error.h"

namespace tokengrad {
namespace {

/// Element numbers of one segment in ascending order of their values.
template <typename T>
std::vector<int64_t> order_of(std::span<const T> values, int64_t begin, int64_t end) {
  std::vector<int64_t> order(static_cast<size_t>(end - begin));
  std::iota(order.begin(), order.end(), begin);
  std::stable_sort(order.begin(), order.end(), [values](int64_t a, int64_t b) {
    const T x = values[static_cast<size_t>(a)];
    const T y = values[static_cast<size_t>(b)];
    return std::isnan(y) ? !std::isnan(x) : x < y;
  });
  return order;
}

/// Calls `body(begin, end)` for each segment.
template <typename Body>
void for_each_segment(Offsets segments, const Body& body) {
  for (size_t s = 0; s + 1 < segments.size(); ++s) body(segments[s], segments[s + 1]);
}

size_t checked_index(std::span<const double> index, size_t element, size_t size) {
  const double value = index[element];
  if (value >= 0 && value < static_cast<double>(size) && std::trunc(value) == value) {
    return static_cast<size_t>(value);
  }
  std::ostringstream got;
  got << value;
  throw Error("ERR_INDEX",
              "index, element " + std::to_string(element) + ": expected a whole number from 0 to " +
                  std::to_string(size - 1) + ", got " + got.str(),
              {{"element", static_cast<double>(element)},
               {"value", value},
               {"size", static_cast<double>(size)}});
}

}  // namespace

template <typename T>
void cumsum(std::span<const T> values, Offsets segments, const CumsumOptions& options,
            std::span<T> out) {
  for_each_segment(segments, [&](int64_t begin, int64_t end) {
    double sum = 0;
    for (int64_t step = 0; step < end - begin; ++step) {
      const auto i = static_cast<size_t>(options.reverse ? end - 1 - step : begin + step);
      const double before = options.discount * sum;
      sum = before + static_cast<double>(values[i]);
      out[i] = static_cast<T>(options.exclusive ? before : sum);
    }
  });
}

template <typename T>
void shift(std::span<const T> values, Offsets segments, int64_t offset, std::span<T> out) {
  for_each_segment(segments, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t from = i - offset;
      const bool inside = from >= begin && from < end;
      out[static_cast<size_t>(i)] = inside ? values[static_cast<size_t>(from)] : T{0};
    }
  });
}

void argsort(std::span<const double> values, Offsets segments, std::span<double> out) {
  for_each_segment(segments, [&](int64_t begin, int64_t end) {
    const std::vector<int64_t> order = order_of(values, begin, end);
    std::copy(order.begin(), order.end(), out.begin() + begin);
  });
}

template <typename T>
void rank(std::span<const T> values, Offsets segments, std::span<T> out) {
  constexpr int64_t kMost = int64_t{1} << std::numeric_limits<T>::digits;
  for_each_segment(segments, [&](int64_t begin, int64_t end) {
    if (end - begin > kMost) {
      throw Error("ERR_REQUEST", "rank: expected segments of at most " + std::to_string(kMost) +
                                     " elements, got one of " + std::to_string(end - begin));
    }
    const std::vector<int64_t> order = order_of(values, begin, end);
    for (size_t place = 0; place < order.size(); ++place) {
      out[static_cast<size_t>(order[place])] = static_cast<T>(place);
    }
  });
}

void check_index(std::span<const double> index, size_t size) {
  for (size_t i = 0; i < index.size(); ++i) checked_index(index, i, size);
}

void gather(std::span<const double> values, std::span<const double> index, std::span<double> out) {
  for (size_t i = 0; i < index.size(); ++i) {
    out[i] = values[checked_index(index, i, values.size())];
  }
}

void scatter_add(std::span<const double> values, std::span<const double> index,
                 std::span<double> out) {
  std::fill(out.begin(), out.end(), 0.0);
  for (size_t i = 0; i < index.size(); ++i) out[checked_index(index, i, out.size())] += values[i];
}

void members(std::span<const uint32_t> group_sizes, int64_t index, std::span<double> out) {
  int64_t first = 0;
  for (size_t group = 0; group < group_sizes.size(); ++group) {
    if (index >= group_sizes[group]) {
      throw Error("ERR_GROUP_SIZE",
                  "member(" + std::to_string(index) + "), group " + std::to_string(group) +
                      ": expected at least " + std::to_string(index + 1) + " samples, got " +
                      std::to_string(group_sizes[group]),
                  {{"index", static_cast<double>(index)},
                   {"group", static_cast<double>(group)},
                   {"size", static_cast<double>(group_sizes[group])}});
    }
    out[group] = static_cast<double>(first + index);
    first += group_sizes[group];
  }
}

template void cumsum(std::span<const float>, Offsets, const CumsumOptions&, std::span<float>);
template void cumsum(std::span<const double>, Offsets, const CumsumOptions&, std::span<double>);
template void shift(std::span<const float>, Offsets, int64_t, std::span<float>);
template void shift(std::span<const double>, Offsets, int64_t, std::span<double>);
template void rank(std::span<const float>, Offsets, std::span<float>);
template void rank(std::span<const double>, Offsets, std::span<double>);

}  // namespace tokengrad
