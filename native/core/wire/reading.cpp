// Reads a result on a pool's threads, part by part as it arrives.
#include "core/wire/reading.h"

#include <utility>

namespace tokengrad {
namespace {

/// Up to here a text is read where it is pushed, which takes some tens of microseconds.
constexpr uint64_t kInlineBytes = 64 * 1024;
/// Bytes read before others get their turn on the pool.
constexpr size_t kTurnBytes = 1024 * 1024;

}  // namespace

size_t Reading::push(Pool& pool, std::string_view part) {
  if (inline_bytes_ + part.size() <= kInlineBytes) {
    // Nothing has gone to the pool yet.
    inline_bytes_ += part.size();
    read(part);
    ++consumed_;
    return 0;
  }
  inline_bytes_ = kInlineBytes;
  const std::lock_guard lock(mutex_);
  parts_.push_back(part);
  waiting_bytes_ += part.size();
  if (!busy_) {
    busy_ = true;
    pool.submit([self = shared_from_this(), &pool] { self->work(pool); });
  }
  return waiting_bytes_;
}

void Reading::when_drained(std::function<void()> drained) {
  {
    const std::lock_guard lock(mutex_);
    if (busy_) {
      drained_ = std::move(drained);
      return;
    }
  }
  drained();
}

void Reading::finish(Done done) {
  {
    const std::lock_guard lock(mutex_);
    done_ = std::move(done);
    if (busy_) return;
  }
  settle();
}

void Reading::cancel() { cancel_.set(); }

void Reading::work(Pool& pool) {
  for (size_t taken = 0; taken < kTurnBytes;) {
    std::string_view part;
    {
      std::unique_lock lock(mutex_);
      if (parts_.empty()) {
        busy_ = false;
        const auto drained = std::exchange(drained_, nullptr);
        // Whoever finishes from now on finds nobody busy and settles by itself.
        const bool last = done_ != nullptr;
        lock.unlock();
        if (drained) drained();
        if (last) settle();
        return;
      }
      part = parts_.front();
      parts_.pop_front();
      waiting_bytes_ -= part.size();
    }
    read(part);
    ++consumed_;
    taken += part.size();
  }
  pool.submit([self = shared_from_this(), &pool] { self->work(pool); });
}

void Reading::read(std::string_view part) {
  if (failed_) return;
  try {
    cancel_.check();
    reader_.push(part);
  } catch (const Error& error) {
    fail(error);
  }
}

void Reading::settle() {
  try {
    cancel_.check();
    if (!failed_) reader_.finish();
  } catch (const Error& error) {
    fail(error);
  }
  done_(error_);
}

void Reading::fail(const Error& error) {
  error_.emplace(error);
  failed_ = true;
}

}  // namespace tokengrad
