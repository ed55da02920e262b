// Checks a traced loss, so that an executor can run it without looking again.
#include "core/program.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"

namespace tokengrad {
namespace {

constexpr double kLargestIndex = 2147483647;

/// How a structural op relates the axis of its result to that of its operand.
enum class AxisRule : uint8_t { kNone, kFiner, kSame, kCoarser, kMember };

/// What a structural op takes as its operand.
enum class Operand : uint8_t { kNumber, kMask, kAny };

struct Rule {
  Op op;
  AxisRule axis;
  Operand operand;
};

const std::map<std::string, Rule>& rules() {
  static const auto* table = new std::map<std::string, Rule>{
      {"input", {Op::kInput, AxisRule::kNone, Operand::kNumber}},
      {"constant", {Op::kConstant, AxisRule::kNone, Operand::kNumber}},
      {"spread", {Op::kSpread, AxisRule::kFiner, Operand::kAny}},
      {"indicator", {Op::kIndicator, AxisRule::kSame, Operand::kMask}},
      {"sum", {Op::kSum, AxisRule::kCoarser, Operand::kNumber}},
      {"mean", {Op::kMean, AxisRule::kCoarser, Operand::kNumber}},
      {"max", {Op::kMax, AxisRule::kCoarser, Operand::kNumber}},
      {"min", {Op::kMin, AxisRule::kCoarser, Operand::kNumber}},
      {"logsumexp", {Op::kLogsumexp, AxisRule::kCoarser, Operand::kNumber}},
      {"count", {Op::kCount, AxisRule::kCoarser, Operand::kAny}},
      {"member", {Op::kMember, AxisRule::kMember, Operand::kNumber}},
  };
  return *table;
}

/// Checks one node against those before it.
class NodeCheck {
 public:
  NodeCheck(const std::vector<Node>& before, const NodeSpec& spec) : before_(before), spec_(spec) {}

  Node check() const {
    for (const size_t input : spec_.inputs) {
      if (input >= before_.size())
        refuse("expected earlier nodes as inputs, got " + std::to_string(input));
    }
    Node node{Op::kAten, {}, spec_.inputs, spec_.axis, spec_.kind};
    const auto rule = rules().find(spec_.op);
    if (rule == rules().end()) {
      check_elementwise();
      node.call = call();
    } else {
      check_structural(rule->second);
      node.op = rule->second.op;
      if (node.op == Op::kConstant) node.value = attribute("value");
      if (node.op == Op::kMember) node.index = static_cast<int64_t>(index());
    }
    return node;
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw Error("ERR_PROGRAM",
                "node " + std::to_string(before_.size()) + " (" + spec_.op + "): " + problem,
                {{"node", static_cast<double>(before_.size())}});
  }

  OpCall call() const {
    try {
      return OpCall(spec_.aten, spec_.inputs.size(), spec_.attributes);
    } catch (const Error& error) {
      refuse(error.what());
    }
  }

  void check_elementwise() const {
    if (spec_.aten.empty()) refuse("unknown op");
    if (spec_.inputs.empty()) refuse("expected at least one input");
    for (const size_t input : spec_.inputs) {
      if (before_[input].axis != spec_.axis) refuse("expected inputs of the node's own axis");
    }
  }

  void check_structural(const Rule& rule) const {
    if (!spec_.aten.empty()) refuse("expected no ATen operator");
    const size_t operands = rule.axis == AxisRule::kNone ? 0 : 1;
    if (spec_.inputs.size() != operands) {
      refuse("expected " + std::to_string(operands) + " inputs, got " +
             std::to_string(spec_.inputs.size()));
    }
    const size_t attributes = rule.op == Op::kConstant || rule.op == Op::kMember ? 1 : 0;
    if (spec_.attributes.size() != attributes) refuse("unexpected attributes");
    if (rule.op == Op::kConstant && spec_.axis != Axis::kBatch) refuse("expected axis batch");

    const bool keeps_kind = rule.op == Op::kSpread;
    const Kind kind = keeps_kind ? before_[spec_.inputs[0]].kind : Kind::kNumber;
    if (spec_.kind != kind) refuse(kind == Kind::kNumber ? "expected numbers" : "expected a mask");
    if (operands == 0) return;
    const Node& operand = before_[spec_.inputs[0]];
    if (rule.operand == Operand::kNumber && operand.kind != Kind::kNumber)
      refuse("expected numbers as input");
    if (rule.operand == Operand::kMask && operand.kind != Kind::kMask)
      refuse("expected a mask as input");
    check_axis(rule.axis, operand.axis);
  }

  void check_axis(AxisRule rule, Axis from) const {
    const Axis to = spec_.axis;
    if (rule == AxisRule::kFiner && !(to > from)) refuse("expected an axis finer than its input's");
    if (rule == AxisRule::kSame && to != from) refuse("expected the axis of its input");
    if (rule == AxisRule::kCoarser && !(to < from))
      refuse("expected an axis coarser than its input's");
    if (rule == AxisRule::kMember && !(from == Axis::kSample && to == Axis::kGroup)) {
      refuse("expected to go from samples to groups");
    }
  }

  double attribute(const std::string& name) const {
    const auto found = spec_.attributes.find(name);
    if (found == spec_.attributes.end()) refuse("expected the attribute " + name);
    return found->second;
  }

  double index() const {
    const double index = attribute("index");
    if (!(index >= 0 && index <= kLargestIndex) || std::trunc(index) != index) {
      refuse("index: expected a whole number of 0 or more");
    }
    return index;
  }

  const std::vector<Node>& before_;
  const NodeSpec& spec_;
};

[[noreturn]] void refuse(const std::string& problem) { throw Error("ERR_PROGRAM", problem); }

/// Checks a node that a run gives back: one number for the whole batch.
void check_scalar(const std::vector<Node>& nodes, const std::string& what, size_t index) {
  if (index >= nodes.size()) refuse(what + ": there is no node " + std::to_string(index));
  if (nodes[index].axis != Axis::kBatch || nodes[index].kind != Kind::kNumber) {
    refuse(what + ": expected one number for the batch");
  }
}

}  // namespace

Program::Program(const ProgramSpec& spec)
    : inputs_(spec.inputs), variable_(spec.variable), loss_(spec.loss), metrics_(spec.metrics) {
  nodes_.reserve(spec.nodes.size());
  for (const NodeSpec& node : spec.nodes) nodes_.push_back(NodeCheck(nodes_, node).check());

  std::vector<int> given(nodes_.size(), 0);
  for (const size_t input : inputs_) {
    if (input >= nodes_.size() || nodes_[input].op != Op::kInput) {
      refuse("inputs: node " + std::to_string(input) + " is no input");
    }
    if (++given[input] > 1) refuse("inputs: node " + std::to_string(input) + " is given twice");
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].op == Op::kInput && given[i] == 0) {
      refuse("inputs: node " + std::to_string(i) + " is not given");
    }
  }
  if (variable_ >= inputs_.size() || nodes_[inputs_[variable_]].axis != Axis::kToken) {
    refuse("variable: expected an input of axis token");
  }
  check_scalar(nodes_, "loss", loss_);
  for (const size_t metric : metrics_) check_scalar(nodes_, "metrics", metric);

  std::vector<bool> kept(nodes_.size(), false);
  kept[loss_] = true;
  for (const size_t metric : metrics_) kept[metric] = true;
  for (size_t i = nodes_.size(); i-- > 0;) {
    for (const size_t input : nodes_[i].inputs) {
      if (kept[input]) continue;
      kept[input] = true;
      nodes_[i].releases.push_back(input);
    }
  }
}

}  // namespace tokengrad
