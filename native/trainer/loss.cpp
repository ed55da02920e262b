// Values and slopes of the built-in losses.
#include "trainer/loss.h"

#include <algorithm>
#include <cmath>

#include "trainer/errors.h"

namespace tokengrad::trainer {
namespace {

using Type = LossConfig::Type;

int64_t trained(std::span<const double> weights) {
  return std::count_if(weights.begin(), weights.end(), [](double w) { return w != 0; });
}

// A product in which an advantage of 0 silences even an overflowed ratio.
double times(double advantage, double factor) { return advantage == 0 ? 0 : advantage * factor; }

}  // namespace

BuiltInLoss::BuiltInLoss(const LossConfig& config, const LossInputs& inputs, const Batch& batch,
                         int64_t context)
    : config_(config), inputs_(inputs), batch_(batch), context_(context) {
  batch_tokens_ = trained(batch.weights);
  if (config.type == Type::kCrossEntropy) return;
  const auto require = [&](const std::vector<double>& values, const char* name) {
    if (values.size() == batch.tokens.size()) return;
    throw input_error(std::string(name) + ": expected one number per position of the batch");
  };
  require(inputs.sampled, "logprobs");
  require(inputs.advantages, "advantages");
  if (config.beta != 0 ? config.type == Type::kGrpo : !inputs.reference.empty()) {
    require(inputs.reference, "reference_logprobs");
  }
}

BuiltInLoss::Term BuiltInLoss::policy(double logprob, double sampled, double advantage,
                                      double ratio) {
  const double clipped = std::clamp(ratio, config_.clip_low, config_.clip_high);
  const double raw_term = -times(advantage, ratio);
  const double clipped_term = -times(advantage, clipped);
  switch (config_.type) {
    case Type::kImportanceSampling:
      return {raw_term, raw_term};
    case Type::kCispo:
      return {clipped_term * logprob, clipped_term};
    case Type::kDro: {
      const double drift = logprob - sampled;
      return {-advantage * logprob + config_.beta / 2 * drift * drift,
              -advantage + config_.beta * drift};
    }
    default:  // ppo, grpo: at a bound both branches agree and the whole slope passes
      return raw_term >= clipped_term ? Term{raw_term, raw_term} : Term{clipped_term, 0};
  }
}

double BuiltInLoss::divisor(int64_t sample) const {
  if (config_.type != Type::kGrpo) return 1;
  const auto samples = static_cast<double>(batch_.samples());
  switch (config_.aggregation) {
    case LossConfig::Aggregation::kFixedHorizon:
      return samples * static_cast<double>(context_);
    case LossConfig::Aggregation::kTokenMean:
      return static_cast<double>(batch_tokens_);
    default:
      return samples * static_cast<double>(trained(batch_.row(batch_.weights, sample)));
  }
}

void BuiltInLoss::add(int64_t sample, const std::vector<double>& logprobs,
                      std::vector<double>& gradients) {
  const int64_t begin = batch_.offsets[sample], end = batch_.offsets[sample + 1];
  const double scale = 1 / divisor(sample);
  double mean_log_ratio = 0;
  if (config_.sequence_ratio) {
    for (int64_t i = begin; i < end; ++i) {
      if (batch_.weights[i] != 0) mean_log_ratio += logprobs[i] - inputs_.sampled[i];
    }
    mean_log_ratio /= static_cast<double>(trained(batch_.row(batch_.weights, sample)));
  }
  for (int64_t i = begin; i < end; ++i) {
    if (batch_.weights[i] == 0) continue;
    ++tokens_;
    nll_ -= logprobs[i];
    if (config_.type == Type::kCrossEntropy) {
      value_ -= batch_.weights[i] * logprobs[i];
      gradients[i] = -batch_.weights[i];
      continue;
    }
    const double log_ratio = logprobs[i] - inputs_.sampled[i];
    const double ratio = std::exp(config_.sequence_ratio ? mean_log_ratio : log_ratio);
    ratios_ += ratio;
    above_ += ratio > config_.clip_high;
    below_ += ratio < config_.clip_low;
    auto [value, slope] = policy(logprobs[i], inputs_.sampled[i], inputs_.advantages[i], ratio);
    if (config_.type == Type::kGrpo && !inputs_.reference.empty()) {
      const double gap = inputs_.reference[i] - logprobs[i];
      const double kl = std::expm1(gap) - gap;
      kl_ += kl;
      value += config_.beta * kl;
      slope -= config_.beta * std::expm1(gap);
    }
    value_ += value * scale;
    gradients[i] = slope * scale;
  }
}

std::map<std::string, double> BuiltInLoss::metrics() const {
  const double count = static_cast<double>(std::max<int64_t>(tokens_, 1));
  std::map<std::string, double> all{{"loss/tokens", static_cast<double>(tokens_)},
                                    {"loss/nll/mean", nll_ / count}};
  if (config_.type == Type::kCrossEntropy) return all;
  all["loss/ratio/mean"] = ratios_ / count;
  if (config_.type == Type::kPpo || config_.type == Type::kCispo || config_.type == Type::kGrpo) {
    all["loss/clip/high_fraction"] = above_ / count;
    all["loss/clip/low_fraction"] = below_ / count;
  }
  if (config_.type == Type::kGrpo && !inputs_.reference.empty()) {
    all["loss/kl_ref/mean"] = kl_ / count;
  }
  return all;
}

}  // namespace tokengrad::trainer
