// Checks a traced loss, so that an executor can run it without looking again.
#include "core/program.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"

namespace tokengrad {
namespace {

constexpr double kLargestIndex = 2147483647;

/// How a structural op relates the axis of its result to those of its operands.
enum class AxisRule : uint8_t {
  kNone,
  kFiner,
  kSame,
  kCoarser,
  /// No operands, one value per group.
  kGroups,
  /// One value per sample or group, in and out.
  kCoarse,
  /// One value per token, in and out.
  kTokens,
};

/// What a structural op takes as its operands.
enum class Operand : uint8_t { kNumber, kMask, kAny };

struct Rule {
  Op op;
  AxisRule axis;
  size_t operands;
  Operand operand;
  std::vector<const char*> attributes{};
};

const std::map<std::string, Rule>& rules() {
  static const auto* table = new std::map<std::string, Rule>{
      {"input", {Op::kInput, AxisRule::kNone, 0, Operand::kNumber}},
      {"constant", {Op::kConstant, AxisRule::kNone, 0, Operand::kNumber, {"value"}}},
      {"spread", {Op::kSpread, AxisRule::kFiner, 1, Operand::kAny}},
      {"indicator", {Op::kIndicator, AxisRule::kSame, 1, Operand::kMask}},
      {"sum", {Op::kSum, AxisRule::kCoarser, 1, Operand::kNumber}},
      {"max", {Op::kMax, AxisRule::kCoarser, 1, Operand::kNumber}},
      {"min", {Op::kMin, AxisRule::kCoarser, 1, Operand::kNumber}},
      {"count", {Op::kCount, AxisRule::kCoarser, 1, Operand::kAny}},
      {"members", {Op::kMembers, AxisRule::kGroups, 0, Operand::kNumber, {"index"}}},
      {"gather", {Op::kGather, AxisRule::kCoarse, 2, Operand::kNumber}},
      {"scatter", {Op::kScatter, AxisRule::kCoarse, 2, Operand::kNumber}},
      {"argsort", {Op::kArgsort, AxisRule::kSame, 1, Operand::kNumber, {"within"}}},
      {"rank", {Op::kRank, AxisRule::kSame, 1, Operand::kNumber, {"within"}}},
      {"cumsum",
       {Op::kCumsum, AxisRule::kTokens, 1, Operand::kNumber, {"reverse", "exclusive", "discount"}}},
      {"shift", {Op::kShift, AxisRule::kTokens, 1, Operand::kNumber, {"offset"}}},
      {"scale", {Op::kScale, AxisRule::kSame, 2, Operand::kNumber}},
      {"unscale", {Op::kUnscale, AxisRule::kSame, 2, Operand::kNumber}},
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
    Node node{Op::kElementwise, spec_.op,   {},        spec_.inputs,
              spec_.attributes, spec_.axis, spec_.kind};
    const auto rule = rules().find(spec_.op);
    if (rule == rules().end()) {
      check_elementwise();
      node.call = call();
    } else {
      check_structural(rule->second);
      node.op = rule->second.op;
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
    if (spec_.inputs.size() != rule.operands) {
      refuse("expected " + std::to_string(rule.operands) + " inputs, got " +
             std::to_string(spec_.inputs.size()));
    }
    if (spec_.attributes.size() != rule.attributes.size()) refuse("unexpected attributes");
    for (const char* name : rule.attributes) attribute(name);
    if (rule.op == Op::kConstant && spec_.axis != Axis::kBatch) refuse("expected axis batch");
    if (rule.op == Op::kMembers) whole("index", 0);
    if (rule.op == Op::kShift) whole("offset", -kLargestIndex);
    if (rule.op == Op::kArgsort || rule.op == Op::kRank) check_within();
    if (rule.op == Op::kArgsort && spec_.axis == Axis::kToken) refuse("expected a coarser axis");

    const bool keeps_kind = rule.op == Op::kSpread;
    const Kind kind = keeps_kind ? before_[spec_.inputs[0]].kind : Kind::kNumber;
    if (spec_.kind != kind) refuse(kind == Kind::kNumber ? "expected numbers" : "expected a mask");
    check_axis(rule.axis, spec_.axis);
    for (const size_t input : spec_.inputs) {
      const Node& operand = before_[input];
      if (rule.operand == Operand::kNumber && operand.kind != Kind::kNumber)
        refuse("expected numbers as input");
      if (rule.operand == Operand::kMask && operand.kind != Kind::kMask)
        refuse("expected a mask as input");
      check_operand_axis(rule.axis, operand.axis);
    }
    // A gather varies over the axis of its index; a scatter takes values over it.
    if (rule.op == Op::kGather && before_[spec_.inputs[1]].axis != spec_.axis)
      refuse("expected the axis of its index");
    if (rule.op == Op::kScatter && before_[spec_.inputs[0]].axis != before_[spec_.inputs[1]].axis)
      refuse("expected values of the axis of its index");
  }

  static bool is_coarse(Axis axis) { return axis == Axis::kSample || axis == Axis::kGroup; }

  void check_axis(AxisRule rule, Axis to) const {
    if (rule == AxisRule::kGroups && to != Axis::kGroup) refuse("expected axis group");
    if (rule == AxisRule::kCoarse && !is_coarse(to)) refuse("expected axis sample or group");
    if (rule == AxisRule::kTokens && to != Axis::kToken) refuse("expected axis token");
  }

  void check_operand_axis(AxisRule rule, Axis from) const {
    const Axis to = spec_.axis;
    if (rule == AxisRule::kFiner && !(to > from)) refuse("expected an axis finer than its input's");
    if ((rule == AxisRule::kSame || rule == AxisRule::kTokens) && to != from)
      refuse("expected the axis of its input");
    if (rule == AxisRule::kCoarser && !(to < from))
      refuse("expected an axis coarser than its input's");
    if (rule == AxisRule::kCoarse && !is_coarse(from))
      refuse("expected inputs of axis sample or group");
  }

  void check_within() const {
    const double within = whole("within", 0);
    if (!(within < static_cast<double>(spec_.axis)))
      refuse("within: expected an axis coarser than its own");
  }

  double attribute(const std::string& name) const {
    const auto found = spec_.attributes.find(name);
    if (found == spec_.attributes.end()) refuse("expected the attribute " + name);
    return found->second;
  }

  double whole(const std::string& name, double smallest) const {
    const double value = attribute(name);
    if (!(value >= smallest && value <= kLargestIndex) || std::trunc(value) != value) {
      refuse(name + ": expected a whole number, got " + std::to_string(value));
    }
    return value;
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
    : inputs_(spec.inputs),
      variable_(spec.variable),
      loss_(spec.loss),
      metrics_(spec.metrics),
      gradient_(spec.gradient),
      forward_(spec.forward),
      outputs_(spec.outputs) {
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
  if (gradient_ >= nodes_.size() || nodes_[gradient_].axis != Axis::kToken ||
      nodes_[gradient_].kind != Kind::kNumber) {
    refuse("gradient: expected numbers of axis token");
  }
  size_t last = loss_;
  for (const size_t metric : metrics_) last = std::max(last, metric);
  if (forward_ <= last || forward_ > nodes_.size()) {
    refuse("forward: expected to hold the loss and the metrics");
  }

  std::vector<bool> kept(nodes_.size(), false);
  kept[loss_] = true;
  kept[gradient_] = true;
  for (const size_t metric : metrics_) kept[metric] = true;
  for (const size_t output : outputs_) {
    if (output >= nodes_.size()) refuse("outputs: there is no node " + std::to_string(output));
    kept[output] = true;
  }
  for (size_t i = nodes_.size(); i-- > 0;) {
    for (const size_t input : nodes_[i].inputs) {
      if (kept[input]) continue;
      kept[input] = true;
      nodes_[i].releases.push_back(input);
    }
  }
}

}  // namespace tokengrad
