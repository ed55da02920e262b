// One pass over the tokens: what is done for each block of them, with every value in its place.
#include "core/fused/pass.h"

#include <algorithm>

#include "core/fused/schedule.h"

namespace tokengrad::fused {
namespace {

/// Lays out one pass: first the values that are in place before a block begins, then the registers.
class PassBuilder {
 public:
  PassBuilder(const std::vector<Node>& nodes, const std::vector<size_t>& kernels,
              const std::vector<bool>& needed)
      : nodes_(nodes),
        kernels_(kernels),
        needed_(needed),
        shared_(nodes.size(), false),
        slots_(nodes.size(), 0),
        last_use_(nodes.size(), 0) {
    place_shared();
    place_arrays();
    find_last_uses();
  }

  Pass build(const std::vector<Use>& uses) {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!needed_[i]) continue;
      if (is_register(i)) compute(i);
      for (const Use& use : uses) {
        if (use.node == i) add_use(use);
      }
      if (is_register(i) && last_use_[i] == i) free_.push_back(slots_[i]);
    }
    return std::move(pass_);
  }

 private:
  bool is_register(size_t node) const { return !shared_[node] && !is_resident(nodes_[node]); }

  /// A node is the same for all tokens of a sample if all its operands are.
  bool is_shared(const Node& node) const {
    if (node.op == Op::kSpread) return true;
    return !is_resident(node) && std::all_of(node.inputs.begin(), node.inputs.end(),
                                             [this](size_t input) { return shared_[input]; });
  }

  void place_shared() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!needed_[i] || !is_shared(nodes_[i])) continue;
      shared_[i] = true;
      slots_[i] = pass_.shared++;
      if (nodes_[i].op == Op::kSpread) {
        pass_.spreads.push_back({slots_[i], nodes_[i].inputs[0]});
      } else {
        Step step = step_of(i);
        step.shared = 0;  // the operands are kLanes copies each, as is the result
        pass_.once.push_back(step);
      }
    }
  }

  void place_arrays() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!needed_[i] || !is_resident(nodes_[i])) continue;
      slots_[i] = pass_.shared + pass_.arrays.size();
      pass_.arrays.push_back({slots_[i], i});
    }
  }

  void find_last_uses() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      last_use_[i] = i;
      if (!needed_[i] || !is_register(i)) continue;
      for (const size_t input : nodes_[i].inputs) last_use_[input] = i;
    }
  }

  /// The register that was given back last comes first: it is still in cache.
  Slot take_register() {
    if (free_.empty()) return pass_.shared + pass_.arrays.size() + pass_.registers++;
    const Slot slot = free_.back();
    free_.pop_back();
    return slot;
  }

  Step step_of(size_t index) const {
    const Node& node = nodes_[index];
    Step step{.kind = StepKind::kCompute,
              .out = slots_[index],
              .kernel = kernels_[index],
              .parameter = parameter_of(kernels_[index], node)};
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      step.operands[k] = slots_[node.inputs[k]];
      if (shared_[node.inputs[k]]) step.shared |= 1u << k;
    }
    return step;
  }

  /// The result may take the register of an operand that is not used again.
  void compute(size_t index) {
    for (const size_t input : nodes_[index].inputs) {
      if (!is_register(input) || last_use_[input] != index) continue;
      if (std::find(free_.begin(), free_.end(), slots_[input]) == free_.end())
        free_.push_back(slots_[input]);
    }
    slots_[index] = take_register();
    pass_.steps.push_back(step_of(index));
  }

  void add_use(const Use& use) {
    Slot slot = slots_[use.node];
    if (shared_[use.node]) {
      slot = take_register();
      pass_.steps.push_back({.kind = StepKind::kFill, .operands = {slots_[use.node]}, .out = slot});
      free_.push_back(slot);
    }
    pass_.steps.push_back({.kind = use.kind, .operands = {slot}, .target = use.target});
    if (use.kind == StepKind::kReduce) pass_.partials.push_back(use.target);
    if (use.kind == StepKind::kGradient) pass_.writes_gradient = true;
  }

  const std::vector<Node>& nodes_;
  const std::vector<size_t>& kernels_;
  const std::vector<bool>& needed_;
  std::vector<bool> shared_;
  std::vector<Slot> slots_;
  std::vector<size_t> last_use_;
  std::vector<Slot> free_;
  Pass pass_;
};

}  // namespace

Pass build_pass(const std::vector<Node>& nodes, const std::vector<size_t>& kernels,
                const std::vector<bool>& needed, const std::vector<Use>& uses) {
  return PassBuilder(nodes, kernels, needed).build(uses);
}

}  // namespace tokengrad::fused
