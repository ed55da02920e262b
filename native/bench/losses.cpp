// The losses of the benchmark: each a pass or two over a sample, in loops that the compiler
// vectorises.
#include "losses.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace tokengrad::bench {
namespace {

constexpr float kSftBeta = 0.1F;
constexpr double kDpoBeta = 0.1;
constexpr float kClip = 0.2F;
constexpr float kKlBeta = 0.04F;

/// The trained positions of one sample.
struct Sample {
  std::size_t count;
  const float* weights;
  const float* logprobs;
  const float* old;
  const float* reference;
  float advantage;
  float* gradients;
};

/// A sample of the batch; the gradients of its other positions are set to 0.
Sample sample_at(const Batch& batch, std::size_t index, std::vector<float>& gradients) {
  const auto [begin, end] = batch.trained[index];
  const std::size_t first = index * batch.positions;
  float* row = gradients.data() + first;
  std::fill(row, row + begin, 0.0F);
  std::fill(row + end, row + batch.positions, 0.0F);
  return {end - begin,
          batch.weights.data() + first + begin,
          batch.logprobs.data() + first + begin,
          batch.old.data() + first + begin,
          batch.reference.data() + first + begin,
          batch.advantages[index],
          row + begin};
}

/// Within two units in the last place where the result is a normal number.
inline float fast_exp(float x) {
  x = std::min(std::max(x, -87.0F), 88.0F);
  const float n = std::rint(x * 1.44269504F);
  const float r = x - n * 0.693147181F;
  const float tail = 0.166666667F + r * (0.0416666667F + r * (0.00833333333F + r * 0.00138888889F));
  const float mantissa = 1.0F + r * (1.0F + r * (0.5F + r * tail));
  const auto exponent = static_cast<std::int32_t>(n);
  return mantissa * std::bit_cast<float>((exponent + 127) << 23);
}

float sum_of_weights(const Sample& sample) {
  float sum = 0.0F;
  for (std::size_t i = 0; i < sample.count; ++i) sum += sample.weights[i];
  return sum;
}

/// Each gives a sample's loss, and writes its gradients times `share`, the sample's part in the
/// batch's mean.

double sft(const Sample& sample, float share) {
  const auto [count, weights, logprobs, old, reference, advantage, gradients] = sample;
  const float mean = 1.0F / sum_of_weights(sample);
  const float scale = mean * share;
  float sum = 0.0F;
  for (std::size_t i = 0; i < count; ++i) {
    const float difference = logprobs[i] - reference[i];
    sum += weights[i] * (kSftBeta * difference * difference - logprobs[i]);
    gradients[i] = scale * weights[i] * (2.0F * kSftBeta * difference - 1.0F);
  }
  return sum * mean;
}

double reinforce(const Sample& sample, float share) {
  const auto [count, weights, logprobs, old, reference, advantage, gradients] = sample;
  const float mean = -advantage / sum_of_weights(sample);
  const float scale = mean * share;
  float sum = 0.0F;
  for (std::size_t i = 0; i < count; ++i) {
    sum += weights[i] * logprobs[i];
    gradients[i] = scale * weights[i];
  }
  return sum * mean;
}

double grpo(const Sample& sample, float share) {
  const auto [count, weights, logprobs, old, reference, advantage, gradients] = sample;
  const float mean = 1.0F / static_cast<float>(count);
  const float scale = mean * share;
  float sum = 0.0F;
  for (std::size_t i = 0; i < count; ++i) {
    const float ratio = fast_exp(logprobs[i] - old[i]);
    const float plain = ratio * advantage;
    const float clipped = std::min(std::max(ratio, 1.0F - kClip), 1.0F + kClip) * advantage;
    const float difference = reference[i] - logprobs[i];
    const float drift = fast_exp(difference);
    sum += kKlBeta * (drift - difference - 1.0F) - std::min(plain, clipped);
    gradients[i] = scale * (kKlBeta * (1.0F - drift) - (plain <= clipped ? plain : 0.0F));
  }
  return sum * mean;
}

/// The mean of a loss over samples.
template <double (*loss)(const Sample&, float)>
double mean_over_samples(const Batch& batch, std::vector<float>& gradients) {
  const float share = 1.0F / static_cast<float>(batch.samples);
  double sum = 0.0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
  for (std::size_t i = 0; i < batch.samples; ++i) {
    sum += loss(sample_at(batch, i, gradients), share);
  }
  return sum / static_cast<double>(batch.samples);
}

double score(const Sample& sample) {
  float sum = 0.0F;
  for (std::size_t i = 0; i < sample.count; ++i) {
    sum += sample.weights[i] * (sample.logprobs[i] - sample.reference[i]);
  }
  return sum;
}

void scale_weights(const Sample& sample, float scale) {
  for (std::size_t i = 0; i < sample.count; ++i) sample.gradients[i] = scale * sample.weights[i];
}

double dpo(const Batch& batch, std::vector<float>& gradients) {
  const std::size_t pairs = batch.samples / 2;
  double sum = 0.0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
  for (std::size_t i = 0; i < pairs; ++i) {
    const Sample chosen = sample_at(batch, 2 * i, gradients);
    const Sample rejected = sample_at(batch, 2 * i + 1, gradients);
    const double margin = kDpoBeta * (score(chosen) - score(rejected));
    const double tail = std::log1p(std::exp(-std::abs(margin)));
    sum += tail + std::max(-margin, 0.0);
    const double slope = -kDpoBeta / (1.0 + std::exp(margin)) / static_cast<double>(pairs);
    scale_weights(chosen, static_cast<float>(slope));
    scale_weights(rejected, static_cast<float>(-slope));
  }
  return sum / static_cast<double>(pairs);
}

}  // namespace

Loss loss_of(std::string_view name) {
  if (name == "sft") return mean_over_samples<sft>;
  if (name == "reinforce") return mean_over_samples<reinforce>;
  if (name == "dpo") return dpo;
  if (name == "grpo") return mean_over_samples<grpo>;
  throw std::invalid_argument("expected sft, reinforce, dpo or grpo, got " + std::string(name));
}

}  // namespace tokengrad::bench
