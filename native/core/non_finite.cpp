// Explains why the result of a run is not finite.
#include "core/non_finite.h"

#include <ATen/core/grad_mode.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "core/culprits.h"
#include "core/evaluation.h"

namespace tokengrad {
namespace {

double at_index(const at::Tensor& values, int64_t index) {
  return values[index].to(at::kDouble).item<double>();
}

Error::Facts place_of(const Layout& layout, Axis axis, int64_t element) {
  if (axis == Axis::kGroup) return {{"group", static_cast<double>(element)}};
  if (axis == Axis::kSample) return {{"sample", static_cast<double>(element)}};
  if (axis == Axis::kBatch) return {};
  const Place place = layout.place(element);
  return {{"sample", static_cast<double>(place.sample)},
          {"position", static_cast<double>(place.position)}};
}

/// Computes up to the first culprit and tells what is there.
Error culprit_error(const Program& program, const Layout& layout, const Request& request,
                    at::Device device, const Culprits& culprits, const CancelFlag& cancel) {
  const at::NoGradGuard no_history;
  Evaluation evaluation(program, layout, request, device);
  for (size_t index = 0; index < culprits.node; ++index) {
    cancel.check();
    evaluation.compute(index);
    evaluation.release(index);
  }
  const Node& node = program.nodes()[culprits.node];
  Error::Facts facts = place_of(layout, node.axis, culprits.element);
  facts.emplace_back("node", static_cast<double>(culprits.node));
  facts.emplace_back("value", at_index(evaluation.compute(culprits.node), culprits.element));
  if (node.is_elementwise()) {
    std::vector<double> operands;
    for (const size_t input : node.inputs)
      operands.push_back(at_index(evaluation.value(input), culprits.element));
    facts.emplace_back("operands", std::move(operands));
  }
  facts.emplace_back("samples", culprits.samples);
  if (culprits.shared) facts.emplace_back("shared", 1.0);
  return Error("ERR_NON_FINITE",
               "node " + std::to_string(culprits.node) + ": the value is not finite",
               std::move(facts));
}

Error loss_error(double loss) {
  return Error("ERR_NON_FINITE", "the loss is not finite",
               {{"value", loss}, {"samples", std::vector<double>{}}, {"shared", 1.0}});
}

/// Whether the value at an index of a result buffer is finite.
bool is_finite_at(const std::byte* values, Dtype dtype, int64_t index) {
  const auto read = [&]<typename T>(T value) {
    std::memcpy(&value, values + static_cast<size_t>(index) * sizeof(T), sizeof(T));
    return value;
  };
  switch (dtype) {
    case Dtype::kFloat32:
      return std::isfinite(read(float{}));
    case Dtype::kBfloat16:  // the upper half of a float
      return std::isfinite(std::bit_cast<float>(uint32_t{read(uint16_t{})} << 16));
    case Dtype::kFloat64:
      break;
  }
  return std::isfinite(read(double{}));
}

/// The samples, ascending, with a stored gradient that is not finite.
std::vector<double> non_finite_samples(const Layout& layout, const Request& request) {
  std::vector<double> samples;
  for (int64_t sample = 0; sample < layout.samples(); ++sample) {
    int64_t position = layout.rows()[sample].position;
    const int64_t end = layout.rows()[sample + 1].position;
    while (position < end && is_finite_at(request.output.data(), request.dtype, position))
      ++position;
    if (position < end) samples.push_back(static_cast<double>(sample));
  }
  return samples;
}

/// The gradient of a token is not finite, or is not once stored as the request's dtype.
Error gradient_error(const Layout& layout, const Request& request, int64_t token, double value) {
  Error::Facts facts = place_of(layout, Axis::kToken, token);
  facts.emplace_back("value", value);
  facts.emplace_back("samples", non_finite_samples(layout, request));
  const std::string problem = std::isfinite(value)
                                  ? std::string("is too large for ") + name_of(request.dtype)
                                  : std::string("is not finite");
  return Error("ERR_NON_FINITE", "the gradient " + problem, std::move(facts));
}

Error cause(const Program& program, const Layout& layout, const Request& request, at::Device device,
            const Computed& computed, const CancelFlag& cancel) {
  const bool of_loss = !std::isfinite(computed.result.loss);
  const size_t result = of_loss ? program.loss() : program.gradient();
  if (const auto culprits = find_culprits(program, layout, request, device, result, cancel)) {
    return culprit_error(program, layout, request, device, *culprits, cancel);
  }
  if (of_loss) return loss_error(computed.result.loss);
  return gradient_error(layout, request, *computed.non_finite_token, computed.non_finite_value);
}

}  // namespace

Error explain(const Program& program, const Layout& layout, const Request& request,
              at::Device device, const Computed& computed, const CancelFlag& cancel) {
  const Error error = cause(program, layout, request, device, computed, cancel);
  Error::Facts facts = error.facts();
  facts.emplace_back("loss", computed.result.loss);
  return Error(error.code(), error.what(), std::move(facts));
}

}  // namespace tokengrad
