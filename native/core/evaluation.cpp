// Computes the nodes of a program, one after the other, with libtorch.
#include "core/evaluation.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include <sstream>

#include "core/array_ops.h"
#include "core/error.h"
#include "core/staging.h"

namespace tokengrad {

Evaluation::Evaluation(const Program& program, const Layout& layout, const Request& request,
                       at::Device device)
    : program_(program),
      layout_(layout),
      precision_(request.precision),
      device_(device),
      values_(program.nodes().size()) {
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const InputData& input = request.inputs[i];
    // Never written to: no op of a program is in place.
    values_[program.inputs()[i]] =
        upload(at::from_blob(const_cast<void*>(input.data), {input.size}, input.dtype), device);
  }
}

const at::Tensor& Evaluation::compute(size_t node) {
  if (program_.nodes()[node].op != Op::kInput) values_[node] = apply(program_.nodes()[node]);
  return values_[node];
}

void Evaluation::release(size_t node) {
  for (const size_t done : program_.nodes()[node].releases) values_[done].reset();
}

at::Tensor Evaluation::apply(const Node& node) const {
  const auto operand = [&](size_t place) -> const at::Tensor& {
    return values_[node.inputs[place]];
  };
  const auto axis = [&] { return program_.nodes()[node.inputs[0]].axis; };
  const auto samples = [&]() -> const Segments& {
    return *layout_.segments(Axis::kToken, Axis::kSample);
  };
  switch (node.op) {
    case Op::kInput:
      break;  // bound, never computed
    case Op::kConstant:
      return at::full({1}, node.attribute("value"), at::TensorOptions(at::kDouble).device(device_));
    case Op::kSpread:
      return spread(operand(0), axis(), node.axis, dtype_of(node, precision_));
    case Op::kIndicator:
      return operand(0).to(dtype_of(node, precision_));
    case Op::kSum:
    case Op::kMax:
    case Op::kMin:
      return reduce(node.op, operand(0), axis(), node.axis);
    case Op::kCount:
      return program_.nodes()[node.inputs[0]].kind == Kind::kMask
                 ? reduce(Op::kSum, operand(0), axis(), node.axis)
                 : layout_.segments(axis(), node.axis)->lengths();
    case Op::kMembers:
      return members(static_cast<int64_t>(node.attribute("index")));
    case Op::kGather:
      return gather(operand(0), operand(1));
    case Op::kScatter:
      return scatter_add(operand(0), operand(1), layout_.size(node.axis));
    case Op::kArgsort:
      return argsort(operand(0), within(node));
    case Op::kRank:
      return rank(operand(0), within(node));
    case Op::kCumsum:
      return cumsum(operand(0), samples(),
                    {.reverse = node.attribute("reverse") != 0,
                     .exclusive = node.attribute("exclusive") != 0,
                     .discount = node.attribute("discount")});
    case Op::kShift:
      return shift(operand(0), samples(), static_cast<int64_t>(node.attribute("offset")));
    case Op::kScale:
      return scale(operand(0), operand(1));
    case Op::kUnscale:
      return unscale(operand(0), operand(1));
    case Op::kElementwise:
      return call(node);
  }
  throw Error("ERR_NATIVE", "internal: an op without a rule");
}

at::Tensor Evaluation::call(const Node& node) const {
  std::vector<at::Tensor> operands;
  operands.reserve(node.inputs.size());
  for (const size_t input : node.inputs) operands.push_back(values_[input]);
  at::Tensor result = (*node.call)(operands);
  const at::ScalarType dtype = dtype_of(node, precision_);
  if (result.dim() != 1 || result.size(0) != layout_.size(node.axis) ||
      result.scalar_type() != dtype) {
    std::ostringstream got;
    got << result.sizes() << " of " << result.scalar_type();
    throw Error("ERR_PROGRAM", node.call->name() + ": expected [" +
                                   std::to_string(layout_.size(node.axis)) + "] of " +
                                   c10::toString(dtype) + ", got " + got.str());
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

at::Tensor Evaluation::reduce(Op op, const at::Tensor& values, Axis from, Axis to) const {
  // By way of the samples, to share the work out among threads. An extreme with a gradient goes the
  // straight way: ties share it equally over the whole segment.
  const bool straight = op != Op::kSum && values.requires_grad();
  if (from == Axis::kToken && to != Axis::kSample && !straight) {
    return reduce(op, reduce(op, values, from, Axis::kSample), Axis::kSample, to);
  }
  const SegmentsPtr& segments = layout_.segments(from, to);
  if (op == Op::kSum) return segment_sum(values, segments);
  return op == Op::kMax ? segment_max(values, segments) : segment_min(values, segments);
}

at::Tensor Evaluation::members(int64_t index) const {
  const at::Tensor numbers = at::empty({layout_.size(Axis::kGroup)}, at::kDouble);
  tokengrad::members(layout_.group_sizes(), index,
                     {numbers.data_ptr<double>(), static_cast<size_t>(numbers.numel())});
  return upload(numbers, device_);
}

const Segments& Evaluation::within(const Node& node) const {
  return *layout_.segments(node.axis, node.within());
}

}  // namespace tokengrad
