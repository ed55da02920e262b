// Sharing out completions among decoders, and scoring of prompts.
#include "trainer/sampler.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>

#include "trainer/batch.h"
#include "trainer/decoder.h"
#include "trainer/errors.h"

namespace tokengrad::trainer {
namespace {

// Bounds the keys and values held at once.
constexpr int64_t kCacheBytes = 256 << 20;

}  // namespace

void SampleRequest::check(const ModelConfig& config) const {
  if (samples < 1 || max_tokens < 1) {
    throw input_error("num_samples, max_tokens: expected at least 1");
  }
  if (!(choice.temperature >= 0) || !(choice.top_p > 0 && choice.top_p <= 1)) {
    throw input_error("sampling_params: expected temperature >= 0 and 0 < top_p <= 1");
  }
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto at = "model_inputs, sample " + std::to_string(i);
    const auto length = static_cast<int64_t>(prompts[i].size());
    if (length < 1 || length >= config.context) {
      throw input_error(at + ": expected 1 to " + std::to_string(config.context - 1) +
                        " tokens, got " + std::to_string(length));
    }
    const auto stray = std::find_if(prompts[i].begin(), prompts[i].end(), [&](int32_t token) {
      return token < 0 || token >= config.vocabulary;
    });
    if (stray != prompts[i].end()) {
      throw input_error(at + ", position " + std::to_string(stray - prompts[i].begin()) +
                        ": expected a token below " + std::to_string(config.vocabulary) + ", got " +
                        std::to_string(*stray));
    }
  }
}

std::vector<Sequence> sample(const Model& model, const Parameters& weights,
                             const SampleRequest& request, const Check& check) {
  const auto& config = model.config;
  request.check(config);
  const at::NoGradGuard no_grad;
  std::vector<Sequence> sequences(request.prompts.size() * request.samples);
  std::vector<Row> rows;
  std::map<Tokens, uint64_t> repeats;
  for (size_t p = 0; p < request.prompts.size(); ++p) {
    const auto& prompt = request.prompts[p];
    const auto room = config.context - static_cast<int64_t>(prompt.size());
    for (int64_t s = 0; s < request.samples; ++s) {
      rows.push_back({&prompt,
                      Stream(request.seed, prompt, repeats[prompt]++),
                      &sequences[p * request.samples + s],
                      std::min(request.max_tokens, room),
                      {}});
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.prompt->size() < b.prompt->size(); });
  const auto longest = rows.empty() ? 0 : static_cast<int64_t>(rows.back().prompt->size());
  const auto columns = longest + std::min(request.max_tokens, config.context);
  const auto row_bytes = 2 * config.layers * config.width * columns *
                         static_cast<int64_t>(c10::elementSize(config.precision));
  const auto together = std::max<int64_t>(1, kCacheBytes / row_bytes);
  const auto count = static_cast<int64_t>(rows.size());
  for (int64_t begin = 0; begin < count; begin += together) {
    const auto end = std::min(count, begin + together);
    Decoder(model, weights, request, {rows.begin() + begin, rows.begin() + end}).run(check);
  }
  return sequences;
}

std::vector<PromptScores> score_prompts(const Model& model, const Parameters& weights,
                                        const std::vector<Tokens>& prompts, int64_t top) {
  const at::NoGradGuard no_grad;
  Batch batch;
  batch.offsets.push_back(0);
  for (const auto& prompt : prompts) {
    batch.tokens.insert(batch.tokens.end(), prompt.begin(), prompt.end() - 1);
    batch.targets.insert(batch.targets.end(), prompt.begin() + 1, prompt.end());
    batch.offsets.push_back(static_cast<int32_t>(batch.tokens.size()));
  }
  batch.weights.assign(batch.tokens.size(), 1);
  top = std::min(top, model.config.vocabulary);
  std::vector<double> logprobs(batch.tokens.size()), top_logprobs(batch.tokens.size() * top);
  Tokens top_tokens(top_logprobs.size());
  for (const auto& bucket : make_buckets(batch)) {
    const auto hidden = model.hidden(weights, bucket.tokens).flatten(0, 1);
    const auto table = model.log_probabilities(weights, hidden.index_select(0, bucket.picks));
    const auto targets = table.gather(1, bucket.targets).to(at::kDouble);
    const auto [best, ids] = table.topk(top, 1);
    const auto best_values = best.to(at::kDouble).contiguous();
    const auto best_ids = ids.to(at::kInt).contiguous();
    for (size_t i = 0; i < bucket.positions.size(); ++i) {
      const auto position = bucket.positions[i];
      logprobs[position] = targets.const_data_ptr<double>()[i];
      std::copy_n(best_values.const_data_ptr<double>() + i * top, top,
                  top_logprobs.begin() + position * top);
      std::copy_n(best_ids.const_data_ptr<int32_t>() + i * top, top,
                  top_tokens.begin() + position * top);
    }
  }
  std::vector<PromptScores> scores(prompts.size());
  for (size_t p = 0; p < prompts.size(); ++p) {
    const auto begin = batch.offsets[p], end = batch.offsets[p + 1];
    auto& score = scores[p];
    score.logprobs.push_back(0);
    score.logprobs.insert(score.logprobs.end(), logprobs.begin() + begin, logprobs.begin() + end);
    score.top_tokens.assign(top_tokens.begin() + begin * top, top_tokens.begin() + end * top);
    score.top_logprobs.assign(top_logprobs.begin() + begin * top, top_logprobs.begin() + end * top);
  }
  return scores;
}

}  // namespace tokengrad::trainer
