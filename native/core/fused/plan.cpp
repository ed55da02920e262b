// A program cut into passes over the tokens, for the fused executor.
#include "core/fused/plan.h"

#include <algorithm>

namespace tokengrad::fused {
namespace {

/// Whether a node's value is that of its input, bit for bit.
bool is_copy(const Node& node) { return node.op == Op::kIndicator || node.name == "detach"; }

}  // namespace

Plan::Plan(const Program& program)
    : nodes_(program.nodes()),
      inputs_(program.inputs()),
      roots_{program.loss(), program.gradient(), program.metrics(), program.outputs()} {
  skip_copies();
  find_kernels();
  if (!lacking_.empty()) return;
  schedule_ = make_schedule(nodes_, roots_);
  for (size_t pass = 0; pass < schedule_.uses.size(); ++pass) {
    passes_.push_back(build_pass(nodes_, kernels_, schedule_.needed[pass], schedule_.uses[pass]));
  }
}

void Plan::skip_copies() {
  const auto skip = [this](size_t& node) {
    while (is_copy(nodes_[node])) node = nodes_[node].inputs[0];
  };
  for (Node& node : nodes_) {
    // The ATen call holds tensors that only libtorch needs.
    node.call.reset();
    // Whether numbers or truths are counted is told by the input that the program names.
    if (node.op == Op::kCount) continue;
    for (size_t& input : node.inputs) skip(input);
  }
  skip(roots_.loss);
  skip(roots_.gradient);
  for (size_t& metric : roots_.metrics) skip(metric);
  for (size_t& output : roots_.outputs) skip(output);
}

void Plan::find_kernels() {
  kernels_.assign(nodes_.size(), kNoKernel);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (!node.is_elementwise() || is_copy(node)) continue;
    kernels_[i] = kernel_of(node);
    const bool is_listed = std::find(lacking_.begin(), lacking_.end(), node.name) != lacking_.end();
    if (kernels_[i] == kNoKernel && !is_listed) lacking_.push_back(node.name);
  }
}

}  // namespace tokengrad::fused
