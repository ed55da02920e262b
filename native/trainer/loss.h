// The built-in losses: numbers over log-probabilities, with their slopes written out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trainer/batch.h"

namespace tokengrad::trainer {

// What a policy loss needs besides the live log-probabilities, one number per position of the
// batch; empty where the loss does not read it.
struct LossInputs {
  std::vector<double> sampled, advantages, reference;
};

struct LossConfig {
  enum class Type { kCrossEntropy, kImportanceSampling, kPpo, kCispo, kGrpo, kDro };
  enum class Aggregation { kFixedHorizon, kTokenMean, kSequenceMean };
  Type type = Type::kCrossEntropy;
  double clip_low = 0, clip_high = 0;  // bounds of the ratio: ppo, cispo, grpo
  double beta = 0;                     // dro: weight of the square; grpo: weight of the KL term
  Aggregation aggregation = Aggregation::kFixedHorizon;  // grpo
  bool sequence_ratio = false;                           // grpo
};

// One loss over one batch. With l the live log-probability of a trained target, o the sampler's, f
// the reference's, A the advantage, w the weight, and r = exp(l - o), the terms are
//   cross-entropy         -w l
//   importance sampling   -r A
//   ppo                   max(-r A, -clip(r) A)
//   cispo                 -clip(r) A l, no slope through the ratio
//   dro                   -A l + beta / 2 (l - o)^2
//   grpo                  max(-r A, -clip(r) A) + beta (exp(f - l) + l - f - 1)
// and the loss is their sum; for grpo divided by samples x context (fixed horizon), by the trained
// tokens of the batch, or by those of the sample and by the number of samples. The sequence ratio
// of grpo is the exponential of the sample's mean log-ratio, its slope that of a token's ratio.
class BuiltInLoss {
 public:
  // Throws an Error where a needed input is missing or of another length than the batch.
  BuiltInLoss(const LossConfig& config, const LossInputs& inputs, const Batch& batch,
              int64_t context);

  // Adds the terms of one sample and writes d loss / d logprob at its trained positions.
  void add(int64_t sample, const std::vector<double>& logprobs, std::vector<double>& gradients);

  double value() const { return value_; }
  std::map<std::string, double> metrics() const;

 private:
  struct Term {
    double value, slope;
  };
  Term policy(double logprob, double sampled, double advantage, double ratio);
  double divisor(int64_t sample) const;

  const LossConfig config_;
  const LossInputs& inputs_;
  const Batch& batch_;
  const int64_t context_;
  int64_t batch_tokens_ = 0;

  double value_ = 0;
  // Sums over the trained tokens seen so far, for the metrics.
  double nll_ = 0, ratios_ = 0, above_ = 0, below_ = 0, kl_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace tokengrad::trainer
