// The `torch` executor: runs a program node by node through libtorch and differentiates it by
// libtorch's autograd.
#include "core/executor.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "core/non_finite.h"

namespace tokengrad {
namespace {

void forward(const Program& program, Evaluation& evaluation, const CancelFlag& cancel) {
  for (size_t node = 0; node < program.nodes().size(); ++node) {
    cancel.check();
    const at::Tensor& value = evaluation.compute(node);
    // The backward pass comes by here with the value's gradient.
    if (value.requires_grad())
      value.register_hook([&cancel](const at::Tensor&) { cancel.check(); });
    evaluation.release(node);
  }
}

/// d loss / d variable, packed, on the CPU. Zeros where the loss does not depend on the variable.
at::Tensor backward(const at::Tensor& loss, const at::Tensor& variable) {
  if (!loss.requires_grad()) return at::zeros_like(variable, at::TensorOptions(at::kCPU));
  const auto gradients =
      torch::autograd::grad({loss}, {variable}, /*grad_outputs=*/{}, /*retain_graph=*/false,
                            /*create_graph=*/false, /*allow_unused=*/true);
  if (!gradients[0].defined()) return at::zeros_like(variable, at::TensorOptions(at::kCPU));
  return gradients[0].to(at::kCPU).contiguous();
}

}  // namespace

RunResult run_program(const Program& program, const Request& request, at::Device device,
                      const CancelFlag& cancel) {
  const Layout layout(request.layout, device);
  Evaluation evaluation(program, layout, request, device);
  const at::AutoGradMode recording(true);
  const at::Tensor variable = evaluation.variable().set_requires_grad(true);
  forward(program, evaluation, cancel);

  const at::Tensor loss = evaluation.value(program.loss());
  RunResult result{loss.item<double>(), {}};
  for (const size_t metric : program.metrics()) {
    result.metrics.push_back(evaluation.value(metric).item<double>());
  }
  const auto explain = [&](std::optional<int64_t> token) {
    return find_source(program, layout, request, device, token, cancel);
  };
  if (!std::isfinite(result.loss)) {
    throw explain(std::nullopt)
        .value_or(Error("ERR_NON_FINITE", "the loss is not finite", {{"value", result.loss}}));
  }

  const at::Tensor gradient = backward(loss, variable);
  cancel.check();
  const auto special = scatter(gradient, layout, request.dtype, request.output);
  if (special) {
    const double value = gradient[*special].item<double>();
    if (!std::isfinite(value)) {
      if (const auto source = explain(special)) throw *source;
    }
    throw gradient_error(layout, *special, value, request.dtype);
  }
  return result;
}

}  // namespace tokengrad
