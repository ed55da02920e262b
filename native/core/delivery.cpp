// Brings what libtorch has computed to where a request wants it.
#include "core/delivery.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>

#include "core/staging.h"

namespace tokengrad {
namespace {

/// The loss, and behind it the metrics.
at::Tensor begin_scalars(const Evaluation& evaluation) {
  std::vector<at::Tensor> scalars{evaluation.value(evaluation.program().loss())};
  for (const size_t metric : evaluation.program().metrics())
    scalars.push_back(evaluation.value(metric));
  return begin_download(at::cat(scalars));
}

std::vector<at::Tensor> begin_outputs(const Evaluation& evaluation) {
  std::vector<at::Tensor> values;
  for (const size_t output : evaluation.program().outputs())
    values.push_back(begin_download(evaluation.value(output)));
  return values;
}

}  // namespace

Computed deliver(const Evaluation& evaluation, const at::Tensor& gradient, const Request& request) {
  const at::Tensor gradients = begin_download(gradient);
  const at::Tensor scalars = begin_scalars(evaluation);
  const std::vector<at::Tensor> outputs = begin_outputs(evaluation);
  finish_downloads(gradient.device());

  const double* const numbers = scalars.const_data_ptr<double>();
  Computed computed{{numbers[0], {numbers + 1, numbers + scalars.numel()}}, std::nullopt, 0};
  for (size_t i = 0; i < outputs.size(); ++i) {
    at::from_blob(request.outputs[i].data(), {outputs[i].numel()}, at::kDouble).copy_(outputs[i]);
  }
  computed.non_finite_token =
      scatter(gradients, evaluation.layout(), request.dtype, request.output);
  if (computed.non_finite_token) {
    computed.non_finite_value = gradients[*computed.non_finite_token].item<double>();
  }
  return computed;
}

}  // namespace tokengrad
