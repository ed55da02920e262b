// The state of one training session and the operations on it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/batch.h"
#include "trainer/errors.h"
#include "trainer/loss.h"
#include "trainer/model.h"

namespace tokengrad::trainer {

struct PassResult {
  double loss = 0;
  std::map<std::string, double> metrics;
  std::vector<double> logprobs;  // one per position of the batch, 0 where the weight is 0
};

struct AdamParams {
  double learning_rate, beta1, beta2, eps, weight_decay;
  double grad_clip_norm;  // 0 clips nothing
};

// What a checkpoint holds: all parameters, and for training the optimizer's two moments after them.
struct SavedState {
  int64_t step;
  std::vector<at::Tensor> parts;  // flat vectors with the layout of parameter_shapes()
};

// Not safe for use from two threads at once; every operation leaves the state untouched when it
// throws, except that a step with gradients that are not finite discards them. Passes call
// their `check` now and then.
class Trainer {
 public:
  explicit Trainer(const ModelConfig& config);

  // Scores a batch under a built-in loss, and unless `forward_only` adds its gradients to those
  // that the next step applies.
  PassResult forward_backward(const Batch& batch, const LossConfig& loss, const LossInputs& inputs,
                              bool forward_only, const Check& check);

  // Adds the gradients that follow from `gradients`, d loss / d logprob, one per position. Those at
  // positions of weight 0 are ignored.
  void custom_forward_backward(const Batch& batch, const std::vector<double>& gradients,
                               const Check& check);

  // One step of AdamW with decoupled weight decay; gives the number of steps made so far.
  int64_t optim_step(const AdamParams& params);

  // Makes sampling use the current weights; gives their version, which is their step.
  int64_t publish();

  SavedState save(bool with_optimizer) const;
  // Throws an Error where a part has the wrong size.
  void restore(const SavedState& state);

  const Model& model() const { return model_; }
  const Parameters& published() const { return published_; }
  int64_t published_step() const { return published_step_; }

 private:
  void accumulate(const Batch& batch, const Bucket& bucket, const at::Tensor& logprobs,
                  const std::vector<double>& gradients, Parameters& sums) const;
  at::Tensor score(const Bucket& bucket) const;
  void keep(const Parameters& sums);

  Model model_;
  Parameters weights_, published_, gradients_;
  at::Tensor first_moment_, second_moment_;
  bool has_gradients_ = false;
  int64_t step_ = 0, published_step_ = 0;
};

}  // namespace tokengrad::trainer
