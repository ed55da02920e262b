// Completing rows side by side with cached keys and values.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "trainer/choose.h"
#include "trainer/model.h"
#include "trainer/sampler.h"

namespace tokengrad::trainer {

// One completion in the making.
struct Row {
  const Tokens* prompt;
  Stream stream;
  Sequence* out;
  int64_t limit;  // tokens it may have
  std::string bytes;
  bool done = false;
};

// Prompts end at the same column of the cache: shorter ones begin later, and a mask hides the
// columns before.
class Decoder {
 public:
  // Rows come in order of the length of their prompts, those of one prompt together.
  Decoder(const Model& model, const Parameters& weights, const SampleRequest& request,
          std::vector<Row> rows);

  // Fills every row's sequence. Calls `check` before every token.
  void run(const Check& check);

 private:
  int64_t count() const { return static_cast<int64_t>(rows_.size()); }
  // A cached tensor with its rows apart.
  at::Tensor by_row(const at::Tensor& x) const;
  // Fills the cache with the prompts; gives the hidden states [rows, width] after their last
  // tokens.
  at::Tensor read_prompts();
  // Extends every unfinished row by one token; gives the tokens [rows, 1] to be read next.
  at::Tensor choose_tokens(const at::Tensor& log_probabilities);
  // Takes finished rows out of the cache; gives the indices of those that stay.
  at::Tensor drop_finished();
  // Reads one token per row at `column`; gives the hidden states [rows, width] after it.
  at::Tensor step(const at::Tensor& tokens, int64_t column);

  const Model& model_;
  const Parameters& weights_;
  const SampleRequest& request_;
  std::vector<Row> rows_;
  int64_t longest_ = 0, capacity_ = 0;
  std::vector<at::Tensor> keys_, values_;  // per layer [rows x heads, capacity, head width]
  at::Tensor mask_;                        // [rows x heads, 1, capacity], added to scores
  at::Tensor starts_;                      // [rows, 1], column of the prompt's first token
};

}  // namespace tokengrad::trainer
