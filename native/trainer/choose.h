// Choosing a token from a distribution, reproducibly.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tokengrad::trainer {

struct Choice {
  double temperature = 1;  // 0 always takes the most likely token
  double top_p = 1;        // keeps the fewest most likely tokens that reach this probability
  int64_t top_k = -1;      // keeps this many of the most likely tokens; below 1 keeps all
};

// The token that `uniform`, in [0, 1), falls on: temperature first, then top-k, then top-p. Of
// equally likely tokens the lower id comes first.
int32_t choose(std::span<const double> logprobs, const Choice& choice, double uniform);

// A stream of numbers in [0, 1) for one completion. It depends on the seed, the prompt and the
// completion's ordinal among those of the same prompt, never on what else is sampled beside it.
class Stream {
 public:
  Stream(uint64_t seed, std::span<const int32_t> prompt, uint64_t ordinal);
  double at(uint64_t step) const;

 private:
  uint64_t state_;
};

}  // namespace tokengrad::trainer
