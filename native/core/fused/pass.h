// One pass over the tokens: what is done for each block of them, with every value in its place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/fused/kernels.h"
#include "core/program.h"

namespace tokengrad::fused {

/// Numbers the places of a pass's values: first those that are the same for all tokens of a sample
/// (kLanes copies of one number), then the arrays in memory, then the registers, one block each.
using Slot = size_t;

enum class StepKind : uint8_t {
  /// out = kernel(operands)
  kCompute,
  /// out = the first operand, which is the same for all tokens, as a block.
  kFill,
  /// Folds the first operand into partial number `target`.
  kReduce,
  /// Keeps the first operand for node `target`, an op that needs all tokens at once.
  kStore,
  /// Writes the first operand to output number `target`.
  kOutput,
  /// Writes the first operand to the rows of gradients.
  kGradient,
};

struct Step {
  StepKind kind;
  std::array<Slot, kMostOperands> operands{};
  Slot out = 0;
  size_t target = 0;
  size_t kernel = 0;
  /// Which of the kernel's loops.
  unsigned shared = 0;
  double parameter = 0;
};

/// A slot that is filled from elsewhere: from the coarse value or the array of a node.
struct Source {
  Slot slot;
  size_t node;
};

struct Pass {
  /// Coarse values, set once per sample.
  std::vector<Source> spreads;
  /// Arrays in memory.
  std::vector<Source> arrays;
  /// Steps on values that are the same for all tokens of a sample, done once per sample.
  std::vector<Step> once;
  /// Steps of each block.
  std::vector<Step> steps;
  /// How many slots of each sort there are.
  size_t shared = 0;
  size_t registers = 0;
  /// Partials that this pass computes, in the order of their steps.
  std::vector<size_t> partials;
  bool writes_gradient = false;

  size_t slots() const { return shared + arrays.size() + registers; }
};

/// What a pass has to do with the value of a token node, beside computing others from it.
struct Use {
  size_t node;
  StepKind kind;
  size_t target;
};

/// Builds the pass that computes the nodes marked in `needed`, all of axis token, and does what
/// `uses` says with them. `kernels` has the kernels of the elementwise nodes.
Pass build_pass(const std::vector<Node>& nodes, const std::vector<size_t>& kernels,
                const std::vector<bool>& needed, const std::vector<Use>& uses);

}  // namespace tokengrad::fused
