// A program cut into passes over the tokens, for the fused executor.
//
// Sample, group and batch values are whole arrays of doubles. Token values are computed block by
// block, each pass going once over all tokens, and only kept if an op needs all of them at once.
// A reduction of one pass is ready for the next. What a later pass needs again it computes again.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/fused/pass.h"
#include "core/fused/schedule.h"
#include "core/program.h"

namespace tokengrad::fused {

class Plan {
 public:
  /// Keeps no reference to the program.
  explicit Plan(const Program& program);

  /// Names of the program's ops that no kernel computes as they are used. If there are any, the
  /// plan cannot be run.
  const std::vector<std::string>& lacking() const { return lacking_; }

  /// The program's nodes. What is a mere copy of another node is nobody's input.
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<size_t>& inputs() const { return inputs_; }
  const Roots& roots() const { return roots_; }

  /// Number of an elementwise node's kernel.
  size_t kernel(size_t node) const { return kernels_[node]; }
  const std::vector<Pass>& passes() const { return passes_; }
  const Schedule& schedule() const { return schedule_; }

 private:
  void skip_copies();
  void find_kernels();

  std::vector<Node> nodes_;
  std::vector<size_t> inputs_;
  Roots roots_;
  std::vector<size_t> kernels_;
  std::vector<std::string> lacking_;
  Schedule schedule_;
  std::vector<Pass> passes_;
};

}  // namespace tokengrad::fused
