// The losses of the benchmark, written by hand: what a programmer would write for one loss alone.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace tokengrad::bench {

/// A batch in full rows: `samples` x `positions`, row after row. The trained positions of a sample
/// are one run.
struct Batch {
  struct Run {
    std::size_t begin;
    std::size_t end;
  };

  std::size_t samples;
  std::size_t positions;
  std::vector<float> weights;
  std::vector<float> logprobs;
  std::vector<float> old;
  std::vector<float> reference;
  std::vector<float> advantages;  // one for each sample
  std::vector<Run> trained;       // one for each sample
};

/// Computes the loss and, for every position, d loss / d logprob, on OpenMP's threads.
using Loss = double (*)(const Batch& batch, std::vector<float>& gradients);

/// The loss of that name: `sft`, `reinforce`, `dpo` or `grpo`. Throws std::invalid_argument for any
/// other.
Loss loss_of(std::string_view name);

}  // namespace tokengrad::bench
