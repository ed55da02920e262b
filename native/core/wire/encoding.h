// Writes a text plan on a pool's threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/wire/pool.h"
#include "core/wire/text_plan.h"

namespace tokengrad {

/// Belongs to a thread that is not the pool's, which must keep it until it is done or the pool is
/// gone: what that thread has allocated it should free by itself, as two threads that share a part
/// of the heap wait for each other.
class Encoding {
 public:
  /// Called once, on one of the pool's threads, when nothing is being written any more. With an
  /// error if a value could not be written (of several the first one) or the encoding was
  /// cancelled.
  using Done = std::function<void(std::optional<Error>)>;

  explicit Encoding(TextPlan plan);

  const TextPlan& plan() const { return plan_; }
  /// Bytes written of each piece, once done.
  const std::vector<size_t>& lengths() const { return lengths_; }
  /// Where in the text each row ends, behind its bracket, once done.
  std::vector<size_t> row_ends() const;

  /// Writes all pieces here and now, one block each.
  void run(const std::vector<std::span<char>>& blocks);
  /// Writes them on the pool. The blocks, too, must stay.
  void start(Pool& pool, std::vector<std::span<char>> blocks, Done done);
  /// Pieces that have not begun are left out. Safe to call at any time.
  void cancel() { cancel_.set(); }

 private:
  void next(Pool& pool);
  void write(size_t piece, std::span<char> block) {
    lengths_[piece] = plan_.write(piece, block, row_ends_);
  }
  void fail(size_t piece, const Error& error);

  TextPlan plan_;
  std::vector<std::span<char>> blocks_;
  std::vector<size_t> lengths_;
  /// Where in its piece each row ends.
  std::vector<size_t> row_ends_;
  Done done_;
  CancelFlag cancel_;
  std::atomic<size_t> next_{0};
  /// Tasks of the pool that write, or will.
  std::atomic<size_t> tasks_{0};
  std::mutex mutex_;
  /// The first piece that failed, and why.
  std::atomic<size_t> failed_{SIZE_MAX};
  std::optional<Error> error_;
};

}  // namespace tokengrad
