// Decides in which pass over the tokens each part of a program is computed.
#pragma once

#include <cstddef>
#include <vector>

#include "core/fused/kernels.h"
#include "core/fused/pass.h"
#include "core/program.h"

namespace tokengrad::fused {

/// What a run gives back, as numbers of nodes.
struct Roots {
  size_t loss;
  size_t gradient;
  std::vector<size_t> metrics;
  std::vector<size_t> outputs;
};

/// A reduction of token values to samples, from which all coarser ones are made.
struct Partial {
  size_t node;
  Reduction reduction;
  size_t pass;
};

/// Nodes that no root needs are in none of these.
struct Schedule {
  /// Of each pass: whether it computes or loads a node of axis token, and what it does with it.
  std::vector<std::vector<bool>> needed;
  std::vector<std::vector<Use>> uses;
  /// Nodes whose values are whole arrays, to be computed before a pass, in this order; one list
  /// more than there are passes.
  std::vector<std::vector<size_t>> before;
  std::vector<Partial> partials;
  /// Of a node that reduces token values: its partial.
  std::vector<size_t> partial_of;
};

Schedule make_schedule(const std::vector<Node>& nodes, const Roots& roots);

/// Whether a node of axis token is an input or an op that needs all tokens at once: its values lie
/// in memory.
bool is_resident(const Node& node);
/// Whether a node says how many elements segments have, whatever their values.
bool counts_elements(const std::vector<Node>& nodes, const Node& node);
/// Whether a node reduces the values of tokens.
bool reduces_tokens(const std::vector<Node>& nodes, const Node& node);
/// How a node that reduces does so; a count of a mask is a sum.
Reduction reduction_of(const Node& node);

}  // namespace tokengrad::fused
