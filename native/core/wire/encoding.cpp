// Writes a text plan on a pool's threads.
#include "core/wire/encoding.h"

#include <algorithm>
#include <utility>

namespace tokengrad {

Encoding::Encoding(TextPlan plan)
    : plan_(std::move(plan)), lengths_(plan_.pieces()), row_ends_(plan_.rows()) {}

std::vector<size_t> Encoding::row_ends() const {
  std::vector<size_t> ends = row_ends_;
  size_t begin = 0;
  for (size_t piece = 0, row = 0; piece < plan_.pieces(); begin += lengths_[piece++]) {
    for (; row < plan_.rows_ended(piece); ++row) ends[row] += begin;
  }
  return ends;
}

void Encoding::run(const std::vector<std::span<char>>& blocks) {
  for (size_t i = 0; i < plan_.pieces(); ++i) write(i, blocks[i]);
}

void Encoding::start(Pool& pool, std::vector<std::span<char>> blocks, Done done) {
  blocks_ = std::move(blocks);
  done_ = std::move(done);
  const size_t tasks = std::min<size_t>(pool.threads(), plan_.pieces());
  tasks_ = tasks;
  for (size_t i = 0; i < tasks; ++i) pool.submit([this, &pool] { next(pool); });
}

void Encoding::next(Pool& pool) {
  const size_t piece = next_++;
  if (piece < plan_.pieces()) {
    try {
      cancel_.check();
      // Behind a piece that failed nothing need be written; what is before it has its say.
      if (piece < failed_) write(piece, blocks_[piece]);
    } catch (...) {
      fail(piece, standard_error());
    }
    // The next one goes behind whatever else waits for the pool.
    if (next_ < plan_.pieces()) return pool.submit([this, &pool] { next(pool); });
  }
  if (--tasks_ > 0) return;
  // Once it is called this object may be gone.
  const Done done = std::move(done_);
  done(std::move(error_));
}

void Encoding::fail(size_t piece, const Error& error) {
  const std::lock_guard lock(mutex_);
  if (piece > failed_) return;
  error_.emplace(error);
  failed_ = piece;
}

}  // namespace tokengrad
