// A batch of training samples, and the padded buckets in which the model sees it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/model.h"

namespace tokengrad::trainer {

// Rows of tokens, laid end to end. Position t of a row holds a token, the target that the model is
// to predict after it, and the weight of that target; weight 0 leaves a position out.
struct Batch {
  std::vector<int32_t> tokens, targets;
  std::vector<double> weights;
  std::vector<int32_t> offsets;  // row i is [offsets[i], offsets[i + 1])

  int64_t samples() const { return static_cast<int64_t>(offsets.size()) - 1; }
  int64_t positions() const { return static_cast<int64_t>(tokens.size()); }
  template <class T>
  std::span<T> row(std::vector<T>& values, int64_t sample) const {
    return std::span(values).subspan(offsets[sample], offsets[sample + 1] - offsets[sample]);
  }
  template <class T>
  std::span<const T> row(const std::vector<T>& values, int64_t sample) const {
    return std::span(values).subspan(offsets[sample], offsets[sample + 1] - offsets[sample]);
  }
  // Throws an Error that names the sample and position where the batch does not fit the model.
  void check(const ModelConfig& config) const;
};

// Rows of similar length that go through the model together.
struct Bucket {
  std::vector<int64_t> samples;
  at::Tensor tokens;               // [rows, longest row], padded with 0 on the right
  at::Tensor picks;                // trained positions, as indices into the flattened `tokens`
  at::Tensor targets;              // [trained positions, 1]
  std::vector<int64_t> positions;  // where each trained position lies in the batch
};

// Cuts a batch into buckets. What follows the last trained position of a row has no influence on
// it and is cut off; rows without one are left out.
std::vector<Bucket> make_buckets(const Batch& batch);

// Values of a batch at the bucket's trained positions.
at::Tensor pick(const std::vector<double>& values, const Bucket& bucket, at::ScalarType precision);

}  // namespace tokengrad::trainer
