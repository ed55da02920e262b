// Brings what libtorch has computed to where a request wants it.
#pragma once

#include "core/evaluation.h"
#include "core/executor.h"

namespace tokengrad {

/// Takes the loss, the metrics and the outputs of an evaluation and a gradient of axis token, from
/// any device, and waits for that device once.
Computed deliver(const Evaluation& evaluation, const at::Tensor& gradient, const Request& request);

}  // namespace tokengrad
