// Computes the nodes of a program, one after the other, with libtorch.
#include "core/evaluation.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include <sstream>

#include "core/error.h"

namespace tokengrad {

Evaluation::Evaluation(const Program& program, const Layout& layout, const Request& request,
                       at::Device device)
    : program_(program),
      layout_(layout),
      precision_(request.precision),
      device_(device),
      values_(program.nodes().size()) {
  if (request.inputs.size() != program.inputs().size()) {
    throw Error("ERR_REQUEST", "inputs: expected " + std::to_string(program.inputs().size()) +
                                   " arrays, got " + std::to_string(request.inputs.size()));
  }
  for (size_t i = 0; i < request.inputs.size(); ++i) bind_input(i, request.inputs[i]);
}

void Evaluation::bind_input(size_t place, const InputData& input) {
  const Node& node = program_.nodes()[program_.inputs()[place]];
  const int64_t size = layout_.size(node.axis);
  if (input.size != size || input.dtype != dtype_of(node)) {
    throw Error("ERR_REQUEST",
                "inputs[" + std::to_string(place) + "]: expected " + std::to_string(size) +
                    " values of " + c10::toString(dtype_of(node)) + ", got " +
                    std::to_string(input.size) + " of " + c10::toString(input.dtype));
  }
  // Never written to: no op of a program is in place.
  values_[program_.inputs()[place]] =
      at::from_blob(const_cast<void*>(input.data), {size}, input.dtype).to(device_);
}

at::ScalarType Evaluation::dtype_of(const Node& node) const {
  if (node.kind == Kind::kMask) return at::kBool;
  return node.axis == Axis::kToken ? precision_ : at::kDouble;
}

const at::Tensor& Evaluation::compute(size_t node) {
  if (program_.nodes()[node].op != Op::kInput) values_[node] = apply(program_.nodes()[node]);
  return values_[node];
}

void Evaluation::release(size_t node) {
  for (const size_t done : program_.nodes()[node].releases) values_[done].reset();
}

at::Tensor Evaluation::apply(const Node& node) const {
  if (node.op == Op::kAten) return call(node);
  if (node.op == Op::kConstant) {
    return at::full({1}, node.value, at::TensorOptions(at::kDouble).device(device_));
  }
  const Axis from = program_.nodes()[node.inputs[0]].axis;
  const Kind kind = program_.nodes()[node.inputs[0]].kind;
  const at::Tensor& values = values_[node.inputs[0]];
  switch (node.op) {
    case Op::kSpread:
      return spread(values, from, node.axis, dtype_of(node));
    case Op::kIndicator:
      return values.to(dtype_of(node));
    case Op::kSum:
      return sum(values, from, node.axis);
    case Op::kMean:
      return sum(values, from, node.axis)
          .div(layout_.segments(from, node.axis)->lengths().clamp_min_(1));
    case Op::kMax:
      return segment_max(values, layout_.segments(from, node.axis));
    case Op::kMin:
      return segment_min(values, layout_.segments(from, node.axis));
    case Op::kLogsumexp:
      return segment_logsumexp(values, layout_.segments(from, node.axis));
    case Op::kCount:
      return kind == Kind::kMask ? sum(values, from, node.axis)
                                 : layout_.segments(from, node.axis)->lengths();
    case Op::kMember:
      return member(values, node.index);
    default:
      throw Error("ERR_NATIVE", "internal: an op without a rule");
  }
}

at::Tensor Evaluation::call(const Node& node) const {
  std::vector<at::Tensor> operands;
  operands.reserve(node.inputs.size());
  for (const size_t input : node.inputs) operands.push_back(values_[input]);
  at::Tensor result = (*node.call)(operands);
  if (result.dim() != 1 || result.size(0) != layout_.size(node.axis) ||
      result.scalar_type() != dtype_of(node)) {
    std::ostringstream got;
    got << result.sizes() << " of " << result.scalar_type();
    throw Error("ERR_PROGRAM", node.call->name() + ": expected [" +
                                   std::to_string(layout_.size(node.axis)) + "] of " +
                                   c10::toString(dtype_of(node)) + ", got " + got.str());
  }
  return result;
}

at::Tensor Evaluation::spread(const at::Tensor& values, Axis from, Axis to,
                              at::ScalarType dtype) const {
  // A scalar without a gradient is repeated by a stride of 0, not in memory.
  if (from == Axis::kBatch && !values.requires_grad()) {
    return values.to(dtype).expand({layout_.size(to)});
  }
  // By way of the samples, so that the sum of the backward pass has many segments to share out
  // among threads.
  if (to == Axis::kToken && from != Axis::kSample) {
    return segment_spread(spread(values, from, Axis::kSample, values.scalar_type()),
                          layout_.segments(to, Axis::kSample), dtype);
  }
  return segment_spread(values, layout_.segments(to, from), dtype);
}

at::Tensor Evaluation::sum(const at::Tensor& values, Axis from, Axis to) const {
  if (from == Axis::kToken && to != Axis::kSample) {
    return sum(segment_sum(values, layout_.segments(from, Axis::kSample)), Axis::kSample, to);
  }
  return segment_sum(values, layout_.segments(from, to));
}

at::Tensor Evaluation::member(const at::Tensor& values, int64_t index) const {
  const std::span<const uint32_t> sizes = layout_.group_sizes();
  for (size_t group = 0; group < sizes.size(); ++group) {
    if (index < sizes[group]) continue;
    throw Error("ERR_GROUP_SIZE",
                "member(" + std::to_string(index) + "), group " + std::to_string(group) +
                    ": expected at least " + std::to_string(index + 1) + " samples, got " +
                    std::to_string(sizes[group]),
                {{"index", static_cast<double>(index)},
                 {"group", static_cast<double>(group)},
                 {"size", static_cast<double>(sizes[group])}});
  }
  const at::Tensor first = layout_.segments(Axis::kSample, Axis::kGroup)
                               ->offsets_tensor()
                               .narrow(0, 0, layout_.size(Axis::kGroup));
  return values.index_select(0, first.add(index));
}

}  // namespace tokengrad
