// The whole arrays of a run of the fused executor: coarse values, and what is kept of the tokens.
#include "core/fused/values.h"

#include <algorithm>

#include "core/arrays.h"
#include "core/error.h"
#include "core/parallel.h"

namespace tokengrad::fused {
Values::Values(const Plan& plan, const Layout& layout, const Request& request,
               const Variant& variant)
    : plan_(plan),
      layout_(layout),
      variant_(variant),
      coarse_(plan.nodes().size(), nullptr),
      tokens_(plan.nodes().size(), nullptr),
      partials_(plan.schedule().partials.size()) {
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const size_t node = plan.inputs()[i];
    const void* const data = request.inputs[i].data;
    if (plan.nodes()[node].axis == Axis::kToken) {
      tokens_[node] = static_cast<const float*>(data);
    } else {
      coarse_[node] = static_cast<const double*>(data);
    }
  }
}

float* Values::keep(size_t node) {
  floats_.emplace_back(new float[static_cast<size_t>(layout_.size(Axis::kToken))]);
  tokens_[node] = floats_.back().get();
  return floats_.back().get();
}

double* Values::make(size_t node) {
  const auto size = static_cast<size_t>(layout_.size(plan_.nodes()[node].axis));
  doubles_.emplace_back(new double[size]);
  coarse_[node] = doubles_.back().get();
  return doubles_.back().get();
}

std::span<const double> Values::span_of(size_t node) const {
  return {coarse_[node], static_cast<size_t>(layout_.size(plan_.nodes()[node].axis))};
}

void Values::compute(size_t node) {
  if (plan_.nodes()[node].op == Op::kInput) return;
  if (plan_.nodes()[node].axis == Axis::kToken) {
    compute_tokens(node);
  } else {
    compute_coarse(node);
  }
}

void Values::compute_tokens(size_t index) {
  const Node& node = plan_.nodes()[index];
  const auto size = static_cast<size_t>(layout_.size(Axis::kToken));
  const std::span<const float> values(tokens_[node.inputs[0]], size);
  const std::span<float> out(keep(index), size);
  const Axis within = node.op == Op::kRank ? node.within() : Axis::kSample;
  const Offsets segments = layout_.segments(Axis::kToken, within)->offsets();
  parallel_for(static_cast<int64_t>(segments.size()) - 1, static_cast<int64_t>(size),
               [&](int64_t begin, int64_t end) {
                 const Offsets part = segments.subspan(static_cast<size_t>(begin),
                                                       static_cast<size_t>(end - begin + 1));
                 if (node.op == Op::kRank) {
                   rank(values, part, out);
                 } else if (node.op == Op::kShift) {
                   shift(values, part, static_cast<int64_t>(node.attribute("offset")), out);
                 } else {
                   cumsum(values, part,
                          {node.attribute("reverse") != 0, node.attribute("exclusive") != 0,
                           node.attribute("discount")},
                          out);
                 }
               });
}

void Values::compute_coarse(size_t index) {
  const Node& node = plan_.nodes()[index];
  double* const values = make(index);
  const std::span<double> out(values, span_of(index).size());
  switch (node.op) {
    case Op::kConstant:
      *values = node.attribute("value");
      return;
    case Op::kSpread:
      return spread(index, values);
    case Op::kSum:
    case Op::kMax:
    case Op::kMin:
      return reduce(index, values);
    case Op::kCount:
      return counts_elements(plan_.nodes(), node) ? count(index, values) : reduce(index, values);
    case Op::kMembers:
      return members(layout_.group_sizes(), static_cast<int64_t>(node.attribute("index")), out);
    case Op::kGather:
      return gather(span_of(node.inputs[0]), span_of(node.inputs[1]), out);
    case Op::kScatter:
      return scatter_add(span_of(node.inputs[0]), span_of(node.inputs[1]), out);
    case Op::kArgsort:
      return argsort(span_of(node.inputs[0]), layout_.segments(node.axis, node.within())->offsets(),
                     out);
    case Op::kRank:
      return rank(span_of(node.inputs[0]), layout_.segments(node.axis, node.within())->offsets(),
                  out);
    default:
      return elementwise(index, values);
  }
}

void Values::elementwise(size_t index, double* out) const {
  const Node& node = plan_.nodes()[index];
  const size_t kernel = plan_.kernel(index);
  const double* operands[kMostOperands] = {};
  for (size_t k = 0; k < node.inputs.size(); ++k) operands[k] = coarse_[node.inputs[k]];
  variant_.kernels[kernel].wide(out, operands[0], operands[1], operands[2], layout_.size(node.axis),
                                parameter_of(kernel, node));
}

void Values::reduce(size_t index, double* out) const {
  const Node& node = plan_.nodes()[index];
  const Reduction reduction = reduction_of(node);
  const double* in = coarse_[node.inputs[0]];
  Axis from = plan_.nodes()[node.inputs[0]].axis;
  if (from == Axis::kToken) {
    in = partials_[plan_.schedule().partial_of[index]].data();
    from = Axis::kSample;
  }
  if (from == node.axis) {
    std::copy_n(in, layout_.size(from), out);
    return;
  }
  const std::vector<int64_t>& offsets = layout_.segments(from, node.axis)->offsets();
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    out[s] = empty_of(reduction);
    for (int64_t i = offsets[s]; i < offsets[s + 1]; ++i) out[s] = join(reduction, out[s], in[i]);
  }
}

void Values::count(size_t index, double* out) const {
  const Node& node = plan_.nodes()[index];
  const Axis from = plan_.nodes()[node.inputs[0]].axis;
  const std::vector<int64_t>& offsets = layout_.segments(from, node.axis)->offsets();
  for (size_t s = 0; s + 1 < offsets.size(); ++s)
    out[s] = static_cast<double>(offsets[s + 1] - offsets[s]);
}

void Values::spread(size_t index, double* out) const {
  const Node& node = plan_.nodes()[index];
  const double* const in = coarse_[node.inputs[0]];
  const Axis from = plan_.nodes()[node.inputs[0]].axis;
  const std::vector<int64_t>& offsets = layout_.segments(node.axis, from)->offsets();
  for (size_t s = 0; s + 1 < offsets.size(); ++s)
    std::fill(out + offsets[s], out + offsets[s + 1], in[s]);
}

}  // namespace tokengrad::fused
