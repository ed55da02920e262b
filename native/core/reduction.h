// The reductions, and how their results come together.
#pragma once

#include <cstdint>
#include <limits>

namespace tokengrad {

enum class Reduction : uint8_t { kSum, kMax, kMin };

// Always inlined: the loops that use them are hot, and files compiled for one kind of CPU include
// this, none of whose functions may be taken for that of another file.

/// The result of nothing.
[[gnu::always_inline]] constexpr double empty_of(Reduction reduction) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (reduction == Reduction::kSum) return 0;
  return reduction == Reduction::kMax ? -kInfinity : kInfinity;
}

/// The result of two results, or values, together. NaN wins.
[[gnu::always_inline]] constexpr double join(Reduction reduction, double x, double y) {
  if (reduction == Reduction::kSum) return x + y;
  const bool beyond = reduction == Reduction::kMax ? y > x : y < x;
  return beyond || y != y ? y : x;
}

}  // namespace tokengrad
