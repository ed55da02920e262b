// The `torch` executor: runs a program node by node through libtorch and differentiates it by
// libtorch's autograd.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/error.h"
#include "core/evaluation.h"

namespace tokengrad {

struct RunResult {
  double loss;
  /// In the order of the program's metrics. May be infinite or NaN.
  std::vector<double> metrics;
};

/// What an executor computed. The gradient is in the request's output already, the outputs in their
/// arrays.
struct Computed {
  RunResult result;
  /// The first trained token whose gradient, once of the request's dtype, is not finite.
  std::optional<int64_t> non_finite_token;
  double non_finite_value;
};

/// Runs on the calling thread and libtorch's intra-op threads, and writes the gradients to the
/// request's output. Throws
/// - `ERR_REQUEST` if the request does not fit the program,
/// - `ERR_GROUP_SIZE` (facts `index`, `group`, `size`) where a group is too small for `member`,
/// - `ERR_NON_FINITE` if the loss or a gradient is not finite; see `non_finite.h` for its facts,
/// - `ERR_ABORTED` soon after `cancel` is set.
RunResult run_program(const Program& program, const Request& request, at::Device device,
                      const CancelFlag& cancel);

}  // namespace tokengrad
