// Passes, optimizer steps and saved states of a training session.
#include "trainer/trainer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "trainer/errors.h"

namespace tokengrad::trainer {
namespace {

// Names the first trained position where a number is not finite.
void require_finite(const std::vector<double>& values, const Batch& batch, const Bucket& bucket,
                    const char* what) {
  for (const auto position : bucket.positions) {
    if (std::isfinite(values[position])) continue;
    const auto after = std::upper_bound(batch.offsets.begin(), batch.offsets.end(), position);
    const auto sample = after - batch.offsets.begin() - 1;
    throw non_finite_error("sample " + std::to_string(sample) + ", position " +
                           std::to_string(position - batch.offsets[sample]) + ": the " + what +
                           " is " + std::to_string(values[position]));
  }
}

void require_size(const at::Tensor& part, const at::Tensor& like) {
  if (part.sizes() == like.sizes() && part.scalar_type() == like.scalar_type()) return;
  throw input_error("checkpoint: expected " + std::to_string(like.numel()) +
                    " numbers of the model's precision, got " + std::to_string(part.numel()));
}

}  // namespace

Trainer::Trainer(const ModelConfig& config)
    : model_(config),
      weights_(config, /*trainable=*/true),
      published_(config),
      gradients_(config),
      first_moment_(at::zeros_like(weights_.flat)),
      second_moment_(at::zeros_like(weights_.flat)) {
  weights_.initialize(config);
  publish();
}

at::Tensor Trainer::score(const Bucket& bucket) const {
  const auto hidden = model_.hidden(weights_, bucket.tokens).flatten(0, 1);
  const auto picked = hidden.index_select(0, bucket.picks);
  return model_.log_probabilities(weights_, picked).gather(1, bucket.targets).squeeze(1);
}

void Trainer::accumulate(const Batch& batch, const Bucket& bucket, const at::Tensor& logprobs,
                         const std::vector<double>& gradients, Parameters& sums) const {
  require_finite(gradients, batch, bucket, "gradient");
  const auto slopes = pick(gradients, bucket, model_.config.precision);
  const auto parts = torch::autograd::grad({logprobs}, weights_.views, {slopes});
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < parts.size(); ++i) sums.views[i].add_(parts[i]);
}

void Trainer::keep(const Parameters& sums) {
  const at::NoGradGuard no_grad;
  if (!at::isfinite(sums.flat).all().item<bool>()) {
    throw non_finite_error("a gradient of the model's parameters is not finite");
  }
  gradients_.flat.add_(sums.flat);
  has_gradients_ = true;
}

PassResult Trainer::forward_backward(const Batch& batch, const LossConfig& loss_config,
                                     const LossInputs& inputs, bool forward_only,
                                     const Check& check) {
  batch.check(model_.config);
  BuiltInLoss loss(loss_config, inputs, batch, model_.config.context);
  PassResult result;
  result.logprobs.assign(batch.positions(), 0);
  std::vector<double> gradients(batch.positions(), 0);
  std::optional<Parameters> sums;
  if (!forward_only) sums.emplace(model_.config);
  for (const auto& bucket : make_buckets(batch)) {
    check();
    const at::AutoGradMode record(!forward_only);
    const auto logprobs = score(bucket);
    const auto values = logprobs.detach().to(at::kDouble);
    const auto* value = values.const_data_ptr<double>();
    for (const auto position : bucket.positions) result.logprobs[position] = *value++;
    require_finite(result.logprobs, batch, bucket, "log-probability");
    for (const auto sample : bucket.samples) loss.add(sample, result.logprobs, gradients);
    if (!forward_only) accumulate(batch, bucket, logprobs, gradients, *sums);
  }
  if (!std::isfinite(loss.value())) {
    throw non_finite_error("the loss is " + std::to_string(loss.value()));
  }
  if (!forward_only) keep(*sums);
  result.loss = loss.value();
  result.metrics = loss.metrics();
  return result;
}

void Trainer::custom_forward_backward(const Batch& batch, const std::vector<double>& gradients,
                                      const Check& check) {
  batch.check(model_.config);
  if (gradients.size() != batch.tokens.size()) {
    throw input_error("gradients: expected one number per position of the batch");
  }
  Parameters sums(model_.config);
  for (const auto& bucket : make_buckets(batch)) {
    check();
    accumulate(batch, bucket, score(bucket), gradients, sums);
  }
  keep(sums);
}

int64_t Trainer::optim_step(const AdamParams& params) {
  if (!has_gradients_) {
    throw input_error("no gradients have been accumulated since the last optim-step");
  }
  const at::NoGradGuard no_grad;
  auto& gradient = gradients_.flat;
  has_gradients_ = false;
  const double norm = at::norm(gradient, 2, at::kDouble).item<double>();
  if (!std::isfinite(norm)) {
    gradient.zero_();
    throw non_finite_error("the accumulated gradients are not finite and have been discarded");
  }
  if (params.grad_clip_norm > 0 && norm > params.grad_clip_norm) {
    gradient.mul_(params.grad_clip_norm / norm);
  }
  ++step_;
  const double correction1 = 1 - std::pow(params.beta1, step_);
  const double correction2 = 1 - std::pow(params.beta2, step_);
  first_moment_.lerp_(gradient, 1 - params.beta1);
  second_moment_.mul_(params.beta2).addcmul_(gradient, gradient, 1 - params.beta2);
  weights_.matrices.mul_(1 - params.learning_rate * params.weight_decay);
  const auto scale = second_moment_.sqrt().div_(std::sqrt(correction2)).add_(params.eps);
  weights_.flat.addcdiv_(first_moment_, scale, -params.learning_rate / correction1);
  gradient.zero_();
  return step_;
}

int64_t Trainer::publish() {
  const at::NoGradGuard no_grad;
  published_.flat.copy_(weights_.flat);
  return published_step_ = step_;
}

SavedState Trainer::save(bool with_optimizer) const {
  SavedState state{step_, {weights_.flat.clone()}};
  if (with_optimizer) {
    state.parts.push_back(first_moment_.clone());
    state.parts.push_back(second_moment_.clone());
  }
  return state;
}

void Trainer::restore(const SavedState& state) {
  const at::NoGradGuard no_grad;
  if (state.parts.size() != 1 && state.parts.size() != 3) {
    throw input_error("checkpoint: expected weights, or weights and two moments");
  }
  for (const auto& part : state.parts) {
    require_size(part, weights_.flat);
    if (!at::isfinite(part).all().item<bool>()) {
      throw input_error("checkpoint: expected finite numbers");
    }
  }
  weights_.flat.copy_(state.parts[0]);
  if (state.parts.size() == 3) {
    first_moment_.copy_(state.parts[1]);
    second_moment_.copy_(state.parts[2]);
  }
  step_ = state.step;
  publish();
}

}  // namespace tokengrad::trainer
