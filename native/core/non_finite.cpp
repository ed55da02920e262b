// Finds out where a value that is not finite came from.
#include "core/non_finite.h"

#include <ATen/core/grad_mode.h>

#include <cmath>

namespace tokengrad {
namespace {

double at_index(const at::Tensor& values, int64_t index) {
  return values[index].to(at::kDouble).item<double>();
}

/// An infinite constant, such as the missing bound of a clamp, is what the loss says and no fault
/// by itself.
bool is_constant(const Program& program, size_t index) {
  const Node& node = program.nodes()[index];
  return node.op == Op::kConstant ||
         (node.op == Op::kSpread && is_constant(program, node.inputs[0]));
}

/// Where a node's value is not finite although all it was computed from is. bool, [elements of the
/// node's axis].
at::Tensor faults_of(const Program& program, const Evaluation& evaluation, size_t index) {
  const Node& node = program.nodes()[index];
  at::Tensor faults = evaluation.value(index).isfinite().logical_not();
  for (const size_t input : node.inputs) {
    if (!faults.any().item<bool>()) break;
    const Node& operand = program.nodes()[input];
    if (operand.kind == Kind::kMask || is_constant(program, input)) continue;
    at::Tensor finite = evaluation.value(input).isfinite();
    if (operand.axis < node.axis) {
      finite =
          segment_spread(finite, evaluation.layout().segments(node.axis, operand.axis), at::kBool);
    } else if (operand.axis > node.axis) {
      const SegmentsPtr& segments = evaluation.layout().segments(operand.axis, node.axis);
      finite = segment_sum(finite.logical_not(), segments).eq(0);
    }
    faults = faults.logical_and(finite);
  }
  return faults;
}

/// The element of each axis that a token belongs to.
int64_t element_of(const Layout& layout, int64_t token, Axis axis) {
  return axis == Axis::kToken ? token : layout.segments(Axis::kToken, axis)->segment_of(token);
}

Error::Facts place_of(const Layout& layout, Axis axis, int64_t element) {
  if (axis == Axis::kGroup) return {{"group", static_cast<double>(element)}};
  if (axis == Axis::kSample) return {{"sample", static_cast<double>(element)}};
  if (axis == Axis::kBatch) return {};
  const Place place = layout.place(element);
  return {{"sample", static_cast<double>(place.sample)},
          {"position", static_cast<double>(place.position)}};
}

Error source_error(const Program& program, const Evaluation& evaluation, size_t index,
                   int64_t element) {
  const Node& node = program.nodes()[index];
  Error::Facts facts = place_of(evaluation.layout(), node.axis, element);
  facts.emplace_back("node", static_cast<double>(index));
  facts.emplace_back("value", at_index(evaluation.value(index), element));
  if (node.op == Op::kAten) {
    std::vector<double> operands;
    for (const size_t input : node.inputs) {
      operands.push_back(at_index(evaluation.value(input), element));
    }
    facts.emplace_back("operands", std::move(operands));
  }
  return Error("ERR_NON_FINITE", "node " + std::to_string(index) + ": the value is not finite",
               std::move(facts));
}

}  // namespace

std::optional<Error> find_source(const Program& program, const Layout& layout,
                                 const Request& request, at::Device device,
                                 std::optional<int64_t> token, const CancelFlag& cancel) {
  const at::NoGradGuard no_history;
  Evaluation evaluation(program, layout, request, device);
  for (size_t index = 0; index < program.nodes().size(); ++index) {
    cancel.check();
    evaluation.compute(index);
    const Node& node = program.nodes()[index];
    if (node.kind == Kind::kNumber && !is_constant(program, index)) {
      const at::Tensor faults = faults_of(program, evaluation, index);
      if (token) {
        const int64_t element = element_of(layout, *token, node.axis);
        if (faults[element].item<bool>()) return source_error(program, evaluation, index, element);
      } else if (faults.any().item<bool>()) {
        const int64_t element = faults.to(at::kByte).argmax().item<int64_t>();
        return source_error(program, evaluation, index, element);
      }
    }
    evaluation.release(index);
  }
  return std::nullopt;
}

Error gradient_error(const Layout& layout, int64_t token, double value, Dtype dtype) {
  Error::Facts facts = place_of(layout, Axis::kToken, token);
  facts.emplace_back("value", value);
  const std::string problem = std::isfinite(value)
                                  ? std::string("is too large for ") + name_of(dtype)
                                  : std::string("is not finite");
  return Error("ERR_NON_FINITE", "the gradient " + problem, std::move(facts));
}

}  // namespace tokengrad
