// A decoder-only transformer: its sizes, its weights, and its forward passes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tokengrad::trainer {

struct ModelConfig {
  int64_t layers, width, heads, context, vocabulary;
  uint64_t seed;             // of the initial weights
  at::ScalarType precision;  // kFloat or kDouble
  int64_t head_width() const { return width / heads; }
  // Throws an Error where a size makes no model.
  void check() const;
};

struct ParameterShape {
  std::string name;
  std::vector<int64_t> shape;
};

// Every parameter in the order in which it lies in memory: first the matrices (which weight decay
// shrinks), then the gains of the norms (which it leaves alone).
std::vector<ParameterShape> parameter_shapes(const ModelConfig& config);

// All parameters in one flat vector, with one view per parameter. Gradients and the optimizer's
// moments have the same layout, so that steps, copies and checkpoints are operations on one vector.
class Parameters {
 public:
  // Zeros; `trainable` makes the views leaves of autograd.
  explicit Parameters(const ModelConfig& config, bool trainable = false);
  void initialize(const ModelConfig& config);

  at::Tensor flat;
  at::Tensor matrices;  // the part of `flat` that weight decay shrinks
  std::vector<at::Tensor> views;
};

// Takes queries, keys and values, each [rows, heads, length, head width], of one layer, and gives
// what each query reads, of the same shape.
using Attend = std::function<at::Tensor(int64_t layer, const at::Tensor& queries,
                                        const at::Tensor& keys, const at::Tensor& values)>;

// Pre-norm blocks, rotary positions, SiLU, no biases, output tied to the embedding.
class Model {
 public:
  explicit Model(const ModelConfig& config);

  // Hidden states [rows, length, width] of `tokens` [rows, length] under causal attention. Padding
  // on the right of a row cannot reach its tokens. `seen`, if given, is shown every layer's keys
  // and values.
  at::Tensor hidden(const Parameters& weights, const at::Tensor& tokens,
                    const std::function<void(int64_t layer, const at::Tensor& keys,
                                             const at::Tensor& values)>& seen = nullptr) const;

  // The same for tokens at `positions` [rows, length], attending as the caller says.
  at::Tensor hidden(const Parameters& weights, const at::Tensor& tokens,
                    const at::Tensor& positions, const Attend& attend) const;

  // Log-probabilities [n, vocabulary] of the next token after hidden states [n, width].
  at::Tensor log_probabilities(const Parameters& weights, const at::Tensor& hidden) const;

  const ModelConfig config;

 private:
  at::Tensor run(const Parameters& weights, const at::Tensor& tokens, const at::Tensor& rotation,
                 const Attend& attend) const;

  at::Tensor rotations_;  // [context, head width / 2], complex
};

}  // namespace tokengrad::trainer
