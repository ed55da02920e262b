// Walks from a result that is not finite back to where that began.
#include "core/culprits.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <set>

#include "core/evaluation.h"

namespace tokengrad {
namespace {

using Bytes = std::vector<uint8_t>;

at::Tensor on_cpu(const at::Tensor& values) { return values.to(at::kCPU).contiguous(); }

/// What a value that is not finite is: 1 +Infinity, 2 -Infinity, 3 NaN; 0 of all that are finite.
/// Empty if they all are.
Bytes classes_of(const at::Tensor& values) {
  if (values.isfinite().all().item<bool>()) return {};
  const at::Tensor classes = on_cpu(values.isnan().to(at::kByte).mul(3).add(
      values.isposinf().to(at::kByte).add(values.isneginf().to(at::kByte).mul(2))));
  const uint8_t* const data = classes.const_data_ptr<uint8_t>();
  return {data, data + classes.numel()};
}

/// Whether a node's result is one of its operands, unchanged: then only an operand like the result
/// can be what it came from.
bool chooses(const Node& node) {
  static const auto* names =
      new std::set<std::string>{"minimum", "maximum", "clamp", "where", "max", "min"};
  return names->contains(node.name);
}

class Walk {
 public:
  Walk(const Program& program, const Layout& layout)
      : program_(program),
        layout_(layout),
        classes_(program.nodes().size()),
        reached_(program.nodes().size()),
        kept_(program.nodes().size()) {}

  /// Notes what is not finite, and what decides where it came from.
  void note(size_t index, const Evaluation& evaluation) {
    const Node& node = program_.nodes()[index];
    if (node.kind == Kind::kMask || is_constant(index)) return;
    classes_[index] = classes_of(evaluation.value(index));
    if (classes_[index].empty()) return;
    if (node.name == "where") kept_[index] = on_cpu(evaluation.value(node.inputs[0]));
    if (node.op == Op::kGather || node.op == Op::kScatter)
      kept_[index] = on_cpu(evaluation.value(node.inputs[1]));
  }

  std::optional<Culprits> from(size_t result) {
    reached_[result] = classes_[result];
    std::optional<Culprits> culprits;
    std::set<int64_t> samples;
    bool shared = false;
    for (size_t index = result + 1; index-- > 0;) {
      if (reached_[index].empty()) continue;
      const Bytes explained = step(index);
      for (int64_t e = layout_.size(program_.nodes()[index].axis); e-- > 0;) {
        if (!reached_[index][e] || explained[e]) continue;
        culprits = Culprits{index, e, {}, false};
        blame(program_.nodes()[index].axis, e, samples, shared);
      }
    }
    if (!culprits) return std::nullopt;
    culprits->samples.assign(samples.begin(), samples.end());
    culprits->shared = shared;
    return culprits;
  }

 private:
  bool is_constant(size_t index) const {
    const Node& node = program_.nodes()[index];
    return node.op == Op::kConstant || (node.op == Op::kSpread && is_constant(node.inputs[0]));
  }

  /// Goes from the elements of a node that are reached to those of its operands. Gives the elements
  /// that came from another one.
  Bytes step(size_t index) {
    const Node& node = program_.nodes()[index];
    Bytes explained(reached_[index].size(), 0);
    const auto follow = [&](size_t operand, int64_t to, int64_t from) {
      const uint8_t what = classes_[operand][from];
      if (!reached_[index][to] || what == 0) return;
      if (chooses(node) && what != classes_[index][to]) return;
      if (reached_[operand].empty()) reached_[operand].resize(classes_[operand].size(), 0);
      reached_[operand][from] = 1;
      explained[to] = 1;
    };
    if (node.op == Op::kCumsum) {
      for_each_step(node, [&](int64_t to, int64_t before) { follow(index, to, before); });
    }
    for (size_t place = 0; place < node.inputs.size(); ++place) {
      const size_t operand = node.inputs[place];
      if (classes_[operand].empty()) continue;
      for_each_pair(index, place, [&](int64_t to, int64_t from) { follow(operand, to, from); });
    }
    return explained;
  }

  /// Calls `pair(to, from)` for each element of a node and each element of one operand that it was
  /// computed from.
  template <typename Pair>
  void for_each_pair(size_t index, size_t place, const Pair& pair) const {
    const Node& node = program_.nodes()[index];
    const int64_t size = layout_.size(node.axis);
    switch (node.op) {
      case Op::kSpread:
        return for_each_member(program_.nodes()[node.inputs[0]].axis, node.axis,
                               [&](int64_t segment, int64_t member) { pair(member, segment); });
      case Op::kSum:
      case Op::kMax:
      case Op::kMin:
        return for_each_member(node.axis, program_.nodes()[node.inputs[0]].axis, pair);
      case Op::kGather:
        for (int64_t to = 0; to < size; ++to) pair(to, place == 0 ? number(index, to) : to);
        return;
      case Op::kScatter:
        for (int64_t from = 0; from < kept_[index].numel(); ++from) pair(number(index, from), from);
        return;
      case Op::kShift: {
        const auto offset = static_cast<int64_t>(node.attribute("offset"));
        return for_each_member(Axis::kSample, Axis::kToken, [&](int64_t sample, int64_t to) {
          const std::vector<int64_t>& offsets = tokens().offsets();
          const int64_t from = to - offset;
          if (from >= offsets[sample] && from < offsets[sample + 1]) pair(to, from);
        });
      }
      case Op::kCumsum:
        if (node.attribute("exclusive") != 0) return for_each_step(node, pair);
        break;
      default:
        break;
    }
    const bool* const conditions =
        node.name == "where" ? kept_[index].template const_data_ptr<bool>() : nullptr;
    for (int64_t to = 0; to < size; ++to) {
      if (conditions == nullptr || conditions[to] == (place == 1)) pair(to, to);
    }
  }

  template <typename Body>
  void for_each_member(Axis coarse, Axis fine, const Body& body) const {
    const std::vector<int64_t>& offsets = layout_.segments(fine, coarse)->offsets();
    for (size_t segment = 0; segment + 1 < offsets.size(); ++segment) {
      for (int64_t member = offsets[segment]; member < offsets[segment + 1]; ++member)
        body(static_cast<int64_t>(segment), member);
    }
  }

  /// Calls `body(to, before)` for each token of a running sum and the one summed before it, from
  /// the last sum to the first.
  template <typename Body>
  void for_each_step(const Node& node, const Body& body) const {
    const bool reverse = node.attribute("reverse") != 0;
    const std::vector<int64_t>& offsets = tokens().offsets();
    for (size_t sample = 0; sample + 1 < offsets.size(); ++sample) {
      const int64_t first = offsets[sample];
      const int64_t last = offsets[sample + 1] - 1;
      for (int64_t step = 0; step < last - first; ++step) {
        if (reverse) body(first + step, first + step + 1);
        if (!reverse) body(last - step, last - step - 1);
      }
    }
  }

  const Segments& tokens() const { return *layout_.segments(Axis::kToken, Axis::kSample); }

  int64_t number(size_t index, int64_t element) const {
    return static_cast<int64_t>(kept_[index].const_data_ptr<double>()[element]);
  }

  void blame(Axis axis, int64_t element, std::set<int64_t>& samples, bool& shared) const {
    if (axis == Axis::kBatch) shared = true;
    if (axis == Axis::kToken) samples.insert(tokens().segment_of(element));
    if (axis == Axis::kSample) samples.insert(element);
    if (axis != Axis::kGroup) return;
    const std::vector<int64_t>& offsets = layout_.segments(Axis::kSample, axis)->offsets();
    for (int64_t sample = offsets[element]; sample < offsets[element + 1]; ++sample)
      samples.insert(sample);
  }

  const Program& program_;
  const Layout& layout_;
  /// By node. Empty of nodes that are finite throughout.
  std::vector<Bytes> classes_;
  /// By node: the elements that reach the result. Empty of nodes of which none does.
  std::vector<Bytes> reached_;
  /// By node: the condition of a `where`, the index of a gather or scatter.
  std::vector<at::Tensor> kept_;
};

}  // namespace

std::optional<Culprits> find_culprits(const Program& program, const Layout& layout,
                                      const Request& request, at::Device device, size_t result,
                                      const CancelFlag& cancel) {
  const at::NoGradGuard no_history;
  Evaluation evaluation(program, layout, request, device);
  Walk walk(program, layout);
  for (size_t index = 0; index <= result; ++index) {
    cancel.check();
    evaluation.compute(index);
    walk.note(index, evaluation);
    evaluation.release(index);
  }
  return walk.from(result);
}

}  // namespace tokengrad
