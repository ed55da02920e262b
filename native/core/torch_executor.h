// The `torch` executor: the loss and its gradient node by node through libtorch, on any device.
#pragma once

#include "core/executor.h"

namespace tokengrad {

/// Computes all nodes of the program, those of the gradient too. The request has passed
/// `check_request`. See `run_program` for its errors.
Computed run_torch(const Program& program, const Layout& layout, const Request& request,
                   at::Device device, const CancelFlag& cancel);

}  // namespace tokengrad
