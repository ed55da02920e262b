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

/// Ops that the executors know by themselves. All others are calls of an ATen operator.
enum class Op : uint8_t {
  kInput,
  kConstant,
  kSpread,
  kIndicator,
  kSum,
  kMean,
  kMax,
  kMin,
  kLogsumexp,
  kCount,
  kMember,
  kAten,
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

struct ProgramSpec {
  std::vector<NodeSpec> nodes;
  /// Nodes of the inputs, in the order in which a run brings them.
  std::vector<size_t> inputs;
  /// Place among `inputs` of the one that is differentiated, of axis token.
  size_t variable;
  size_t loss;
  std::vector<size_t> metrics;
};

struct Node {
  Op op;
  std::optional<OpCall> call;
  std::vector<size_t> inputs;
  Axis axis;
  Kind kind;
  /// The number of `constant`.
  double value = 0;
  /// The index of `member`.
  int64_t index = 0;
  /// Nodes whose last use is this one: their values can go once it is computed.
  std::vector<size_t> releases{};
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

 private:
  std::vector<Node> nodes_;
  std::vector<size_t> inputs_;
  size_t variable_;
  size_t loss_;
  std::vector<size_t> metrics_;
};

}  // namespace tokengrad
