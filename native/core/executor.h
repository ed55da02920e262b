// Runs programs: by the executor that is asked for, and with an explanation where the result is not
// finite.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/counted.h"
#include "core/error.h"
#include "core/fused/plan.h"
#include "core/program.h"
#include "core/request.h"

namespace tokengrad {

struct RunResult {
  double loss;
  /// In the order of the program's metrics. May be infinite or NaN.
  std::vector<double> metrics;
};

/// What an executor computed. The gradient is in the request's output already, the values of the
/// program's outputs are in their arrays.
struct Computed {
  RunResult result;
  /// The first trained token whose gradient, once of the request's dtype, is not finite.
  std::optional<int64_t> non_finite_token;
  /// That gradient before it was stored.
  double non_finite_value;
};

enum class Executor : uint8_t { kFused, kTorch, kAutograd };

/// A program made ready for every executor.
struct Compiled {
  explicit Compiled(const ProgramSpec& spec) : program(spec), plan(program) {}

  Program program;
  fused::Plan plan;
  Counted<Compiled> counted;
};

/// Runs on the calling thread and libtorch's intra-op threads, and writes the gradients and outputs
/// to the request's arrays. Throws
/// - `ERR_REQUEST` if the request does not fit the program; asks the fused executor, which computes
///   in float32 on the CPU, for another device or precision or for ops that it lacks (see
///   `Plan::lacking`); asks autograd for outputs of the gradient's part; or ranks more than 2^24
///   tokens among each other in float32,
/// - `ERR_GROUP_SIZE` (facts `index`, `group`, `size`) where a group is too small for `members`,
/// - `ERR_INDEX` (facts `element`, `value`, `size`) where an index is out of range,
/// - `ERR_NON_FINITE` if the loss or a gradient is not finite; see `non_finite.h` for its facts,
/// - `ERR_ABORTED` soon after `cancel` is set.
RunResult run_program(const Compiled& compiled, const Request& request, Executor executor,
                      at::Device device, const CancelFlag& cancel);

}  // namespace tokengrad
