// Reads a result on a pool's threads, part by part as it arrives.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/wire/pool.h"
#include "core/wire/result_reader.h"

namespace tokengrad {

/// `push`, `finish`, `cancel` and `when_drained` belong to one thread, which is not the pool's.
class Reading : public std::enable_shared_from_this<Reading> {
 public:
  /// Called once. With an error if the text was refused or the reading was cancelled.
  using Done = std::function<void(std::optional<Error>)>;

  explicit Reading(ResultReader reader) : reader_(std::move(reader)) {}

  /// Takes the next part, whose memory must stay until `consumed` counts it, and gives the bytes
  /// that wait. The first parts are read here and now: most answers are small.
  size_t push(Pool& pool, std::string_view part);
  /// How many parts are not needed any more.
  size_t consumed() const { return consumed_; }
  /// Whether the text has been refused; nothing that is pushed will be read.
  bool failed() const { return failed_; }
  /// Calls `drained`, maybe at once, when nothing waits.
  void when_drained(std::function<void()> drained);
  /// Ends the text. `done` is called when no part is needed any more, maybe at once.
  void finish(Done done);
  /// What waits is not read any more, and `finish` will tell so.
  void cancel();

  /// Once done.
  const ResultReader& result() const { return reader_; }

 private:
  void work(Pool& pool);
  void read(std::string_view part);
  void settle();
  void fail(const Error& error);

  ResultReader reader_;
  uint64_t inline_bytes_ = 0;
  std::atomic<size_t> consumed_{0};
  std::atomic<bool> failed_{false};
  CancelFlag cancel_;
  std::optional<Error> error_;

  std::mutex mutex_;
  std::deque<std::string_view> parts_;
  size_t waiting_bytes_ = 0;
  /// A task of the pool reads, or will.
  bool busy_ = false;
  std::function<void()> drained_;
  Done done_;
};

}  // namespace tokengrad
