// What the tests of writing texts share: rows, blocks, and whole texts.
#pragma once

#include <future>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/wire/encoding.h"

namespace tokengrad::test {

using Texts = std::vector<std::string>;

inline FixedTexts fixed(const Texts& texts) {
  FixedTexts result;
  for (const std::string& text : texts) {
    result.all += text;
    result.ends.push_back(result.all.size());
  }
  return result;
}

template <typename T>
TextRow row_of(RowType type, RowRule rule, const std::vector<T>& values) {
  return {type, rule, values.data(), values.size(), std::nullopt};
}

struct Blocks {
  std::vector<std::string> memory;
  std::vector<std::span<char>> spans;

  explicit Blocks(const TextPlan& plan) {
    for (size_t i = 0; i < plan.pieces(); ++i) memory.emplace_back(plan.capacity(i), '#');
    for (std::string& block : memory) spans.emplace_back(block);
  }
  std::string joined(const std::vector<size_t>& lengths) const {
    std::string text;
    for (size_t i = 0; i < memory.size(); ++i) text += memory[i].substr(0, lengths[i]);
    return text;
  }
};

inline std::string encode(const Texts& texts, const std::vector<TextRow>& rows,
                          size_t piece = 4096) {
  Encoding encoding({fixed(texts), rows, piece});
  const Blocks blocks(encoding.plan());
  encoding.run(blocks.spans);
  return blocks.joined(encoding.lengths());
}

/// Waits for an encoding that runs on a pool.
inline std::optional<Error> finish(const std::unique_ptr<Encoding>& encoding, Pool& pool,
                                   const Blocks& blocks) {
  std::promise<std::optional<Error>> done;
  encoding->start(pool, blocks.spans,
                  [&](std::optional<Error> error) { done.set_value(std::move(error)); });
  return done.get_future().get();
}

}  // namespace tokengrad::test
