// The `torch` executor: the loss and its gradient node by node through libtorch, on any device.
#include "core/torch_executor.h"

#include <ATen/core/grad_mode.h>

#include "core/delivery.h"
#include "core/evaluation.h"

namespace tokengrad {

Computed run_torch(const Program& program, const Layout& layout, const Request& request,
                   at::Device device, const CancelFlag& cancel) {
  const at::NoGradGuard no_history;
  Evaluation evaluation(program, layout, request, device);
  for (size_t node = 0; node < program.nodes().size(); ++node) {
    cancel.check();
    evaluation.compute(node);
    evaluation.release(node);
  }
  return deliver(evaluation, evaluation.value(program.gradient()), request);
}

}  // namespace tokengrad
