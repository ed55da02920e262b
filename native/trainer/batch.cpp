// Checking a batch and cutting it into padded buckets.
#include "trainer/batch.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "trainer/errors.h"

namespace tokengrad::trainer {
namespace {

// Bounds the memory of the activations: some 30 KiB a token at the default size.
constexpr int64_t kBucketTokens = 4096;
// A bucket may hold this many padding slots whatever its size: below it a pass of its own would
// cost more than the padding.
constexpr int64_t kFreePadding = 256;

Bucket fill(const Batch& batch, std::vector<int64_t> samples, int64_t width) {
  Bucket bucket;
  const auto rows = static_cast<int64_t>(samples.size());
  bucket.tokens = at::zeros({rows, width}, at::kLong);
  auto* tokens = bucket.tokens.mutable_data_ptr<int64_t>();
  std::vector<int64_t> picks, targets;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t begin = batch.offsets[samples[r]];
    const int64_t length = std::min<int64_t>(width, batch.offsets[samples[r] + 1] - begin);
    std::copy_n(batch.tokens.begin() + begin, length, tokens + r * width);
    for (int64_t t = 0; t < length; ++t) {
      if (batch.weights[begin + t] == 0) continue;
      picks.push_back(r * width + t);
      targets.push_back(batch.targets[begin + t]);
      bucket.positions.push_back(begin + t);
    }
  }
  bucket.picks = at::tensor(picks, at::kLong);
  bucket.targets = at::tensor(targets, at::kLong).unsqueeze(1);
  bucket.samples = std::move(samples);
  return bucket;
}

}  // namespace

void Batch::check(const ModelConfig& config) const {
  const auto count = tokens.size();
  if (offsets.size() < 2 || offsets.front() != 0 || !std::ranges::is_sorted(offsets) ||
      static_cast<size_t>(offsets.back()) != count || targets.size() != count ||
      weights.size() != count) {
    throw input_error("samples: rows of tokens, targets and weights do not match");
  }
  for (int64_t i = 0; i < samples(); ++i) {
    const auto at = "samples, sample " + std::to_string(i);
    const auto length = static_cast<int64_t>(offsets[i + 1]) - offsets[i];
    if (length < 1 || length > config.context) {
      throw input_error(at + ": expected 1 to " + std::to_string(config.context) + " tokens, got " +
                        std::to_string(length));
    }
    for (int64_t t = 0; t < length; ++t) {
      for (const auto token : {row(tokens, i)[t], row(targets, i)[t]}) {
        if (token >= 0 && token < config.vocabulary) continue;
        throw input_error(at + ", position " + std::to_string(t) + ": expected a token below " +
                          std::to_string(config.vocabulary) + ", got " + std::to_string(token));
      }
      if (!(row(weights, i)[t] >= 0) || !std::isfinite(row(weights, i)[t])) {
        throw input_error(at + ", position " + std::to_string(t) +
                          ": expected a finite weight of at least 0");
      }
    }
  }
}

std::vector<Bucket> make_buckets(const Batch& batch) {
  std::vector<int64_t> lengths(batch.samples()), order;
  for (int64_t i = 0; i < batch.samples(); ++i) {
    const auto weights = batch.row(batch.weights, i);
    const auto last = std::find_if(weights.rbegin(), weights.rend(), [](auto w) { return w != 0; });
    lengths[i] = weights.rend() - last;
    if (lengths[i] > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return lengths[a] > lengths[b]; });

  std::vector<Bucket> buckets;
  for (size_t begin = 0; begin < order.size();) {
    const int64_t width = lengths[order[begin]];
    int64_t padding = 0;
    size_t end = begin;
    for (; end < order.size(); ++end) {
      const int64_t length = lengths[order[end]];
      const bool close = length * 8 >= width * 7;
      const auto rows = static_cast<int64_t>(end - begin) + 1;
      if (end > begin && rows * width > kBucketTokens) break;
      if (!close && padding + width - length > kFreePadding) break;
      padding += width - length;
    }
    buckets.push_back(fill(batch, {order.begin() + begin, order.begin() + end}, width));
    begin = end;
  }
  return buckets;
}

at::Tensor pick(const std::vector<double>& values, const Bucket& bucket, at::ScalarType precision) {
  auto picked = at::empty({static_cast<int64_t>(bucket.positions.size())}, at::kDouble);
  auto* out = picked.mutable_data_ptr<double>();
  for (const auto position : bucket.positions) *out++ = values[position];
  return picked.to(precision);
}

}  // namespace tokengrad::trainer
