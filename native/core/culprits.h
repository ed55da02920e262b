// Walks from a result that is not finite back to where that began.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/error.h"
#include "core/request.h"

namespace tokengrad {

/// An element is a culprit if it is not finite although all that it was computed from is, and it
/// reaches the result through values that are not finite only. So an infinity that a `minimum`, a
/// `where` or a `scale` has cut off is none. Infinite constants, such as the missing bound of a
/// clamp, count as finite: they are what the loss says.
struct Culprits {
  /// The first in program order, and there the first element.
  size_t node;
  int64_t element;
  /// The samples that culprits belong to, ascending: a token's own, and all of a group.
  std::vector<double> samples;
  /// Whether a value of the whole batch is a culprit.
  bool shared;
};

/// Computes the program once more, up to `result`, and finds the culprits of what is not finite
/// there; none if all of it is finite, or is an infinite constant. Keeps one byte an element of the
/// nodes that are not finite.
std::optional<Culprits> find_culprits(const Program& program, const Layout& layout,
                                      const Request& request, at::Device device, size_t result,
                                      const CancelFlag& cancel);

}  // namespace tokengrad
