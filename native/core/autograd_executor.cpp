// The `autograd` executor: the loss node by node, and its gradient by libtorch's autograd.
#include "core/autograd_executor.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/delivery.h"
#include "core/evaluation.h"

namespace tokengrad {
namespace {

void check_outputs(const Program& program) {
  for (const size_t output : program.outputs()) {
    if (output < program.forward()) continue;
    throw Error("ERR_REQUEST", "executor: autograd computes the " +
                                   std::to_string(program.forward()) +
                                   " nodes of the loss only, and node " + std::to_string(output) +
                                   " is asked for");
  }
}

void record(const Program& program, Evaluation& evaluation, const CancelFlag& cancel) {
  for (size_t node = 0; node < program.forward(); ++node) {
    cancel.check();
    const at::Tensor& value = evaluation.compute(node);
    // The backward pass comes by here with the value's gradient.
    if (value.requires_grad())
      value.register_hook([&cancel](const at::Tensor&) { cancel.check(); });
    evaluation.release(node);
  }
}

/// d loss / d variable.
at::Tensor differentiate(const at::Tensor& loss, const at::Tensor& variable) {
  if (!loss.requires_grad()) return at::zeros_like(variable);
  const auto gradients =
      torch::autograd::grad({loss}, {variable}, /*grad_outputs=*/{}, /*retain_graph=*/false,
                            /*create_graph=*/false, /*allow_unused=*/true);
  return gradients[0].defined() ? gradients[0] : at::zeros_like(variable);
}

}  // namespace

Computed run_autograd(const Program& program, const Layout& layout, const Request& request,
                      at::Device device, const CancelFlag& cancel) {
  check_outputs(program);
  const at::AutoGradMode recording(true);
  Evaluation evaluation(program, layout, request, device);
  const at::Tensor variable = evaluation.variable().set_requires_grad(true);
  record(program, evaluation, cancel);
  const at::Tensor gradient = differentiate(evaluation.value(program.loss()), variable);
  cancel.check();
  const at::NoGradGuard recorded;
  return deliver(evaluation, gradient, request);
}

}  // namespace tokengrad
