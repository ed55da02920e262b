// Reads a result on a pool's threads, part by part as it arrives.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/wire/pool.h"
#include "core/wire/result_reader.h"

namespace tokengrad {

struct ReadingSizes {
  /// Up to here a text is read where it is pushed, which takes some tens of microseconds.
  uint64_t inline_bytes = 64 * 1024;
  /// The shortest passage of a row that is left to another thread: shorter ones are read in the
  /// time that it takes to hand them over.
  size_t passage_bytes = 2 * 1024;
};

/// One thread at a time follows the text; where there are others, they read the passages of rows
/// that it passes over. `push`, `finish`, `cancel` and `when_drained` belong to one thread, which
/// is not the pool's.
class Reading : public std::enable_shared_from_this<Reading> {
 public:
  /// Called once. With an error if the text was refused (of several faults the first one in the
  /// text) or the reading was cancelled.
  using Done = std::function<void(std::optional<Error>)>;

  explicit Reading(ResultReader reader, const ReadingSizes& sizes = {})
      : reader_(std::move(reader)), sizes_(sizes) {}

  /// Takes the next part, whose memory must stay until `consumed` counts it, and gives the bytes
  /// that wait. The first parts are read here and now: most answers are small.
  size_t push(Pool& pool, std::string_view part);
  /// How many parts are not needed any more.
  size_t consumed() const { return consumed_; }
  /// Whether the text has been refused; nothing that is pushed will be read.
  bool failed() const { return fault_ != kNoFault; }
  /// Calls `drained`, maybe at once, when nothing waits.
  void when_drained(std::function<void()> drained);
  /// Ends the text. `done` is called when no part is needed any more and no row is written to,
  /// maybe at once.
  void finish(Done done);
  /// What waits is not read any more, and `finish` will tell so.
  void cancel();

  /// Once done.
  const ResultReader& result() const { return reader_; }

 private:
  /// A part that is being read.
  struct Part {
    std::string_view bytes;
    /// Tasks that need it.
    size_t users;
  };

  static constexpr size_t kNoFault = SIZE_MAX;

  /// Follows the text as far as it has come, a part of it, a slice of a part; the last gives where
  /// in the text the passages lie that it leaves.
  void follow(Pool& pool);
  void follow(Pool& pool, Part& part);
  size_t follow(std::string_view slice, Passages* later);
  void read(std::vector<Passage>& passages, size_t order);
  bool idle() const { return !busy_ && begun_.empty(); }
  void release(Part& part);
  /// Tells whoever waits, if this was the last task.
  void check_idle(std::unique_lock<std::mutex> lock);
  void settle();
  void fail(size_t order, const Error& error);

  ResultReader reader_;
  ReadingSizes sizes_;
  uint64_t inline_bytes_ = 0;
  bool pooled_ = false;
  /// Slices of the text that have been followed.
  size_t slices_ = 0;
  std::atomic<size_t> consumed_{0};
  CancelFlag cancel_;

  std::mutex mutex_;
  /// Parts that wait to be followed, and those that tasks need.
  std::deque<std::string_view> parts_;
  std::deque<Part> begun_;
  size_t waiting_bytes_ = 0;
  /// A task of the pool follows the text, or will.
  bool busy_ = false;
  std::function<void()> drained_;
  Done done_;
  /// Where in the text the first fault lies that has been found, and the fault.
  std::atomic<size_t> fault_{kNoFault};
  std::optional<Error> error_;
};

}  // namespace tokengrad
