// Decides in which pass over the tokens each part of a program is computed.
#include "core/fused/schedule.h"

#include <algorithm>
#include <limits>

namespace tokengrad::fused {
namespace {

constexpr size_t kNever = std::numeric_limits<size_t>::max();

bool is_token(const Node& node) { return node.axis == Axis::kToken; }

bool is_reduction(const Node& node) {
  return node.op == Op::kSum || node.op == Op::kMax || node.op == Op::kMin || node.op == Op::kCount;
}

/// The first pass that can use each node.
std::vector<size_t> ready_passes(const std::vector<Node>& nodes) {
  std::vector<size_t> ready(nodes.size(), 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    if (counts_elements(nodes, node)) continue;
    for (const size_t input : node.inputs) ready[i] = std::max(ready[i], ready[input]);
    const bool waits = reduces_tokens(nodes, node) || (is_resident(node) && node.op != Op::kInput &&
                                                       !is_resident(nodes[node.inputs[0]]));
    if (waits) ++ready[i];
  }
  return ready;
}

size_t last_pass(const std::vector<Node>& nodes, const Roots& roots) {
  const std::vector<size_t> ready = ready_passes(nodes);
  size_t last = ready[roots.gradient];
  const auto extend = [&](size_t node) {
    const size_t after_passes = ready[node] + (is_token(nodes[node]) ? 1 : 0);
    if (after_passes > 0) last = std::max(last, after_passes - 1);
  };
  extend(roots.loss);
  for (const size_t metric : roots.metrics) extend(metric);
  for (const size_t output : roots.outputs) extend(output);
  return last;
}

/// Goes from the last node to the first and does everything as late as it can be: what a loss and
/// its gradient share is then mostly computed in the same pass.
class Scheduler {
 public:
  Scheduler(const std::vector<Node>& nodes, const Roots& roots)
      : nodes_(nodes),
        last_(last_pass(nodes, roots)),
        due_(nodes.size(), kNever),
        stored_by_(nodes.size(), kNever) {
    schedule_.needed.assign(last_ + 1, std::vector<bool>(nodes.size(), false));
    schedule_.uses.resize(last_ + 1);
    schedule_.before.resize(last_ + 2);
    schedule_.partial_of.assign(nodes.size(), kNever);

    need(roots.loss, last_ + 1);
    for (const size_t metric : roots.metrics) need(metric, last_ + 1);
    for (size_t i = 0; i < roots.outputs.size(); ++i) {
      const size_t output = roots.outputs[i];
      if (is_token(nodes[output])) {
        use(last_, {output, StepKind::kOutput, i});
      } else {
        need(output, last_ + 1);
      }
    }
    use(last_, {roots.gradient, StepKind::kGradient, 0});
  }

  Schedule schedule() {
    for (size_t i = nodes_.size(); i-- > 0;) {
      if (is_token(nodes_[i])) {
        place_token(i);
      } else if (due_[i] != kNever) {
        place_coarse(i);
      }
    }
    for (auto& list : schedule_.before) std::reverse(list.begin(), list.end());
    return std::move(schedule_);
  }

 private:
  void need(size_t node, size_t pass) { due_[node] = std::min(due_[node], pass); }

  void use(size_t pass, const Use& what) {
    schedule_.needed[pass][what.node] = true;
    schedule_.uses[pass].push_back(what);
  }

  void place_token(size_t i) {
    for (size_t p = 0; p < schedule_.partials.size(); ++p) {
      const Partial& partial = schedule_.partials[p];
      if (partial.node == i) use(partial.pass, {i, StepKind::kReduce, p});
    }
    if (stored_by_[i] != kNever) use(stored_by_[i], {i, StepKind::kStore, i});
    for (size_t pass = 0; pass <= last_; ++pass) {
      if (!schedule_.needed[pass][i]) continue;
      if (is_resident(nodes_[i])) {
        need(i, pass);
      } else {
        for (const size_t input : nodes_[i].inputs) {
          schedule_.needed[pass][input] = is_token(nodes_[input]);
          need(input, pass);
        }
      }
    }
    if (is_resident(nodes_[i]) && due_[i] != kNever) place_resident(i);
  }

  void place_resident(size_t i) {
    if (nodes_[i].op == Op::kInput) return;
    schedule_.before[due_[i]].push_back(i);
    const size_t input = nodes_[i].inputs[0];
    if (is_resident(nodes_[input])) {
      need(input, due_[i]);
    } else {
      stored_by_[input] = std::min(stored_by_[input], due_[i] - 1);
    }
  }

  void place_coarse(size_t i) {
    const Node& node = nodes_[i];
    schedule_.before[due_[i]].push_back(i);
    if (counts_elements(nodes_, node)) return;
    if (reduces_tokens(nodes_, node)) {
      add_partial(i);
    } else {
      for (const size_t input : node.inputs) need(input, due_[i]);
    }
  }

  void add_partial(size_t i) {
    const size_t input = nodes_[i].inputs[0];
    const Reduction reduction = reduction_of(nodes_[i]);
    auto& partials = schedule_.partials;
    auto found = std::find_if(partials.begin(), partials.end(), [=](const Partial& partial) {
      return partial.node == input && partial.reduction == reduction;
    });
    if (found == partials.end()) found = partials.insert(found, {input, reduction, due_[i] - 1});
    found->pass = std::min(found->pass, due_[i] - 1);
    schedule_.partial_of[i] = static_cast<size_t>(found - partials.begin());
  }

  const std::vector<Node>& nodes_;
  const size_t last_;
  /// Of what is a whole array: the pass that needs it first.
  std::vector<size_t> due_;
  /// Of what an op needs for all tokens at once: the pass that has to keep it.
  std::vector<size_t> stored_by_;
  Schedule schedule_;
};

}  // namespace

bool is_resident(const Node& node) {
  return is_token(node) && (node.op == Op::kInput || node.op == Op::kCumsum ||
                            node.op == Op::kShift || node.op == Op::kRank);
}

bool counts_elements(const std::vector<Node>& nodes, const Node& node) {
  return node.op == Op::kCount && nodes[node.inputs[0]].kind == Kind::kNumber;
}

bool reduces_tokens(const std::vector<Node>& nodes, const Node& node) {
  return is_reduction(node) && is_token(nodes[node.inputs[0]]) && !counts_elements(nodes, node);
}

Reduction reduction_of(const Node& node) {
  if (node.op == Op::kMax) return Reduction::kMax;
  return node.op == Op::kMin ? Reduction::kMin : Reduction::kSum;
}

Schedule make_schedule(const std::vector<Node>& nodes, const Roots& roots) {
  return Scheduler(nodes, roots).schedule();
}

}  // namespace tokengrad::fused
