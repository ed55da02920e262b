// Completing prompts, many at once, with the published weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/choose.h"
#include "trainer/errors.h"
#include "trainer/model.h"

namespace tokengrad::trainer {

using Tokens = std::vector<int32_t>;

struct SampleRequest {
  std::vector<Tokens> prompts;
  int64_t samples;     // completions per prompt
  int64_t max_tokens;  // per completion; the end of the context may cut it short
  Choice choice;
  std::vector<std::string> stop;  // matched on the bytes of tokens below 256
  int32_t end_of_text;            // the token that ends a completion
  uint64_t seed;
  // Throws an Error where the request does not fit the model.
  void check(const ModelConfig& config) const;
};

struct Sequence {
  Tokens tokens;
  std::vector<double> logprobs;  // under the model itself, before temperature and truncation
  bool stopped = false;          // by a stop string or the end of the text, which are included
};

// Completions in the order prompt 0 sample 0, prompt 0 sample 1, and so on.
std::vector<Sequence> sample(const Model& model, const Parameters& weights,
                             const SampleRequest& request, const Check& check);

// What the model thought of a prompt's tokens. Entry 0 stands for the first token, which nothing
// precedes: 0, and no alternatives.
struct PromptScores {
  std::vector<double> logprobs;
  Tokens top_tokens;                 // `top` per token after the first, most likely first
  std::vector<double> top_logprobs;  // one per entry of top_tokens
};

std::vector<PromptScores> score_prompts(const Model& model, const Parameters& weights,
                                        const std::vector<Tokens>& prompts, int64_t top);

}  // namespace tokengrad::trainer
