// The `autograd` executor: the loss node by node through libtorch, and its gradient by libtorch's
// autograd. Independent of the program's own gradient, which it serves to check.
#pragma once

#include "core/executor.h"

namespace tokengrad {

/// Computes the nodes before `Program::forward` and differentiates them. The gradient is 0 where
/// the loss does not depend on the variable. The request has passed `check_request`. Throws
/// `ERR_REQUEST` if the program has outputs behind those nodes; see `run_program` for the other
/// errors.
Computed run_autograd(const Program& program, const Layout& layout, const Request& request,
                      at::Device device, const CancelFlag& cancel);

}  // namespace tokengrad
