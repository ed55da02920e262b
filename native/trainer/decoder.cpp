// The decoding loop: read the prompts, then choose and read one token per row at a time.
#include "trainer/decoder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "trainer/errors.h"

namespace tokengrad::trainer {

Decoder::Decoder(const Model& model, const Parameters& weights, const SampleRequest& request,
                 std::vector<Row> rows)
    : model_(model), weights_(weights), request_(request), rows_(std::move(rows)) {
  int64_t most = 0;
  for (const auto& row : rows_) {
    longest_ = std::max<int64_t>(longest_, row.prompt->size());
    most = std::max(most, row.limit);
  }
  capacity_ = longest_ + most;
  const auto& config = model_.config;
  const auto pairs = count() * config.heads;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (auto* side : {&keys_, &values_}) {
      side->push_back(at::zeros({pairs, capacity_, config.head_width()}, config.precision));
    }
  }
  mask_ = at::zeros({count(), config.heads, capacity_}, config.precision);
  starts_ = at::empty({count(), 1}, at::kLong);
  for (int64_t r = 0; r < count(); ++r) {
    const auto start = longest_ - static_cast<int64_t>(rows_[r].prompt->size());
    mask_[r].narrow(1, 0, start).fill_(-std::numeric_limits<double>::infinity());
    starts_.mutable_data_ptr<int64_t>()[r] = start;
  }
  mask_ = mask_.view({pairs, 1, capacity_});
}

void Decoder::run(const Check& check) {
  auto hidden = read_prompts();
  for (int64_t column = longest_;; ++column) {
    check();
    auto next = choose_tokens(model_.log_probabilities(weights_, hidden));
    const auto alive = std::count_if(rows_.begin(), rows_.end(), [](auto& r) { return !r.done; });
    if (alive == 0) return;
    if (alive * 4 <= count() * 3) next = next.index_select(0, drop_finished());
    hidden = step(next, column);
  }
}

at::Tensor Decoder::by_row(const at::Tensor& x) const {
  return x.view({count(), -1, x.size(1), x.size(2)});
}

at::Tensor Decoder::read_prompts() {
  std::vector<at::Tensor> last;
  for (int64_t begin = 0; begin < count();) {
    const auto length = static_cast<int64_t>(rows_[begin].prompt->size());
    std::vector<const Tokens*> prompts;
    std::vector<int64_t> which;
    int64_t end = begin;
    for (; end < count() && static_cast<int64_t>(rows_[end].prompt->size()) == length; ++end) {
      if (prompts.empty() || prompts.back() != rows_[end].prompt) {
        prompts.push_back(rows_[end].prompt);
      }
      which.push_back(static_cast<int64_t>(prompts.size()) - 1);
    }
    auto tokens = at::empty({static_cast<int64_t>(prompts.size()), length}, at::kLong);
    auto* token = tokens.mutable_data_ptr<int64_t>();
    for (const auto* prompt : prompts) token = std::copy(prompt->begin(), prompt->end(), token);
    const auto map = at::tensor(which, at::kLong);
    const auto store = [&](std::vector<at::Tensor>& side, int64_t layer, const at::Tensor& x) {
      by_row(side[layer])
          .slice(0, begin, end)
          .narrow(2, longest_ - length, length)
          .copy_(x.index_select(0, map));
    };
    const auto hidden = model_.hidden(weights_, tokens, [&](auto layer, auto& keys, auto& values) {
      store(keys_, layer, keys);
      store(values_, layer, values);
    });
    last.push_back(hidden.select(1, length - 1).index_select(0, map));
    begin = end;
  }
  return at::cat(last);
}

at::Tensor Decoder::choose_tokens(const at::Tensor& log_probabilities) {
  const auto table = log_probabilities.to(at::kDouble).contiguous();
  const auto vocabulary = static_cast<size_t>(table.size(1));
  auto next = at::zeros({count(), 1}, at::kLong);
  for (int64_t r = 0; r < count(); ++r) {
    auto& row = rows_[r];
    if (row.done) continue;
    const std::span logprobs(table.const_data_ptr<double>() + r * vocabulary, vocabulary);
    auto& [tokens, scores, stopped] = *row.out;
    const auto token = choose(logprobs, request_.choice, row.stream.at(tokens.size()));
    if (!std::isfinite(logprobs[token])) {
      throw non_finite_error("the model's log-probabilities are not finite");
    }
    tokens.push_back(token);
    scores.push_back(logprobs[token]);
    stopped = token == request_.end_of_text;
    if (token < 256 && !stopped) {
      row.bytes.push_back(static_cast<char>(token));
      stopped = std::any_of(request_.stop.begin(), request_.stop.end(),
                            [&](auto& stop) { return row.bytes.ends_with(stop); });
    }
    row.done = stopped || static_cast<int64_t>(tokens.size()) >= row.limit;
    next.mutable_data_ptr<int64_t>()[r] = token;
  }
  return next;
}

at::Tensor Decoder::drop_finished() {
  std::vector<int64_t> stay;
  for (int64_t r = 0; r < count(); ++r) {
    if (!rows_[r].done) stay.push_back(r);
  }
  const auto index = at::tensor(stay, at::kLong);
  const auto shrink = [&](at::Tensor& x) { x = by_row(x).index_select(0, index).flatten(0, 1); };
  std::for_each(keys_.begin(), keys_.end(), shrink);
  std::for_each(values_.begin(), values_.end(), shrink);
  shrink(mask_);
  starts_ = starts_.index_select(0, index);
  std::erase_if(rows_, [](auto& row) { return row.done; });
  return index;
}

at::Tensor Decoder::step(const at::Tensor& tokens, int64_t column) {
  // A finished row that still takes part may lie beyond the context; what it gives is not used.
  const auto positions = (column - starts_).clamp_max_(model_.config.context - 1);
  const auto seen = column + 1;
  const double scale = 1 / std::sqrt(static_cast<double>(model_.config.head_width()));
  const auto attend = [&](int64_t layer, const at::Tensor& queries, const at::Tensor& keys,
                          const at::Tensor& values) {
    const auto flat = [](const at::Tensor& x) { return x.flatten(0, 1); };
    keys_[layer].narrow(1, column, 1).copy_(flat(keys));
    values_[layer].narrow(1, column, 1).copy_(flat(values));
    const auto scores = at::baddbmm(mask_.narrow(2, 0, seen), flat(queries),
                                    keys_[layer].narrow(1, 0, seen).transpose(1, 2), 1, scale);
    return at::bmm(at::softmax(scores, -1), values_[layer].narrow(1, 0, seen))
        .view(queries.sizes());
  };
  return model_.hidden(weights_, tokens, positions, attend).squeeze(1);
}

}  // namespace tokengrad::trainer
