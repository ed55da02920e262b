// A traced loss as the executors take it: checked once, run many times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/op_call.h"

namespace tokengrad {

/// Axes a value can vary over, from coarse to fine.
enum class Axis : uint8_t { kBatch, kGroup, kSample, kToken };
constexpr int kAxes = 4;

/// What a value is made of.
enum class Kind : uint8_t { kNumber, kMask };

/// Ops that the executors know by themselves. All others are elementwise.
enum class Op : uint8_t {
  kInput,
  kConstant,
  kSpread,
  kIndicator,
  kSum,
  kMax,
  kMin,
  kCount,
  kMembers,
  kGather,
  kScatter,
  kArgsort,
  kRank,
  kCumsum,
  kShift,
  kScale,
  kUnscale,
  kElementwise,
};

/// A node as it arrives, unchecked.
struct NodeSpec {
  std::string op;
  /// ATen operator of an elementwise op, such as `add.Tensor`; empty of the ops above.
  std::string aten;
  /// Indices of earlier nodes.
  std::vector<size_t> inputs;
  Attributes attributes;
  Axis axis;
  Kind kind;
};

/// A loss and, behind it, the program of its gradient: forward nodes first, then backward ones.
struct ProgramSpec {
  std::vector<NodeSpec> nodes;
  /// Nodes of the inputs, in the order in which a run brings them.
  std::vector<size_t> inputs;
  /// Place among `inputs` of the log-probabilities, of axis token.
  size_t variable;
  size_t loss;
  /// Nodes of one number for the batch.
  std::vector<size_t> metrics;
  /// d loss / d variable, of axis token.
  size_t gradient;
  /// How many nodes come before the first that only the gradient needs: enough for the loss and the
  /// metrics.
  size_t forward;
  /// Further nodes, of any axis, whose values a run gives back.
  std::vector<size_t> outputs{};
};

struct Node {
  Op op;
  /// Name of the op as the language has it.
  std::string name;
  /// The ATen operator of an elementwise op.
  std::optional<OpCall> call;
  std::vector<size_t> inputs;
  Attributes attributes;
  Axis axis;
  Kind kind;
  /// Nodes whose last use is this one: their values can go once it is computed.
  std::vector<size_t> releases{};

  /// An attribute that the check has seen.
  double attribute(const char* key) const { return attributes.at(key); }
  /// The axis whose segments an `argsort` or `rank` stays within.
  Axis within() const { return static_cast<Axis>(attribute("within")); }
  /// Whether each element is computed from the same elements of the operands, by arithmetic alone.
  bool is_elementwise() const {
    return op == Op::kElementwise || op == Op::kScale || op == Op::kUnscale;
  }
};

class Program {
 public:
  /// Throws `ERR_PROGRAM` with the node's number if anything does not fit.
  explicit Program(const ProgramSpec& spec);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<size_t>& inputs() const { return inputs_; }
  size_t variable() const { return variable_; }
  size_t loss() const { return loss_; }
  const std::vector<size_t>& metrics() const { return metrics_; }
  size_t gradient() const { return gradient_; }
  size_t forward() const { return forward_; }
  const std::vector<size_t>& outputs() const { return outputs_; }

 private:
  std::vector<Node> nodes_;
  std::vector<size_t> inputs_;
  size_t variable_;
  size_t loss_;
  std::vector<size_t> metrics_;
  size_t gradient_;
  size_t forward_;
  std::vector<size_t> outputs_;
};

}  // namespace tokengrad
