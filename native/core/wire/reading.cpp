// Reads a result on a pool's threads, part by part as it arrives.
#include "core/wire/reading.h"

#include <utility>

namespace tokengrad {
namespace {

/// Bytes whose passages are one task, so that others get their turn on the pool.
constexpr size_t kSliceBytes = 64 * 1024;
/// Bytes that are followed, or read by a thread that is alone, before others get their turn.
constexpr size_t kTurnBytes = 1024 * 1024;

}  // namespace

size_t Reading::push(Pool& pool, std::string_view part) {
  // Once a part has gone to the pool all others follow it, however short.
  if (!pooled_ && inline_bytes_ + part.size() <= sizes_.inline_bytes) {
    inline_bytes_ += part.size();
    follow(part, nullptr);
    ++consumed_;
    return 0;
  }
  pooled_ = true;
  const std::lock_guard lock(mutex_);
  parts_.push_back(part);
  waiting_bytes_ += part.size();
  if (!busy_) {
    busy_ = true;
    pool.submit([self = shared_from_this(), &pool] { self->follow(pool); });
  }
  return waiting_bytes_;
}

void Reading::when_drained(std::function<void()> drained) {
  {
    const std::lock_guard lock(mutex_);
    if (!idle()) {
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
    if (!idle()) return;
  }
  settle();
}

void Reading::cancel() { cancel_.set(); }

void Reading::follow(Pool& pool) {
  for (size_t taken = 0; taken < kTurnBytes;) {
    Part* part = nullptr;
    {
      std::unique_lock lock(mutex_);
      if (parts_.empty()) {
        busy_ = false;
        return check_idle(std::move(lock));
      }
      part = &begun_.emplace_back(Part{parts_.front(), 1});
      parts_.pop_front();
    }
    taken += part->bytes.size();
    follow(pool, *part);
  }
  pool.submit([self = shared_from_this(), &pool] { self->follow(pool); });
}

void Reading::follow(Pool& pool, Part& part) {
  const bool alone = pool.threads() == 1;
  for (std::string_view left = part.bytes; !left.empty();) {
    const std::string_view slice = left.substr(0, kSliceBytes);
    left.remove_prefix(slice.size());
    Passages passages{sizes_.passage_bytes, {}};
    const size_t order = follow(slice, alone ? nullptr : &passages);
    if (passages.found.empty()) continue;
    {
      const std::lock_guard lock(mutex_);
      ++part.users;
    }
    pool.submit(
        [self = shared_from_this(), &part, order, found = std::move(passages.found)]() mutable {
          self->read(found, order);
          self->release(part);
        });
  }
  release(part);
}

size_t Reading::follow(std::string_view slice, Passages* later) {
  // The fault that the follower stops at lies behind the passages that it has left.
  const size_t order = 2 * slices_++;
  if (failed()) return order;
  try {
    cancel_.check();
    reader_.push(slice, later);
  } catch (...) {
    fail(order + 1, standard_error());
  }
  return order;
}

void Reading::read(std::vector<Passage>& passages, size_t order) {
  // What is before a fault has its say.
  if (order > fault_) return;
  try {
    cancel_.check();
    for (Passage& passage : passages) passage.read();
  } catch (...) {
    fail(order, standard_error());
  }
}

void Reading::release(Part& part) {
  std::unique_lock lock(mutex_);
  --part.users;
  for (; !begun_.empty() && begun_.front().users == 0; begun_.pop_front(), ++consumed_) {
    waiting_bytes_ -= begun_.front().bytes.size();
  }
  check_idle(std::move(lock));
}

void Reading::check_idle(std::unique_lock<std::mutex> lock) {
  if (!idle()) return;
  const auto drained = std::exchange(drained_, nullptr);
  // Whoever finishes from now on finds nobody busy and settles by itself.
  const bool last = done_ != nullptr;
  lock.unlock();
  if (drained) drained();
  if (last) settle();
}

void Reading::settle() {
  try {
    cancel_.check();
    if (!failed()) reader_.finish();
  } catch (...) {
    fail(0, standard_error());
  }
  done_(error_);
}

void Reading::fail(size_t order, const Error& error) {
  const std::lock_guard lock(mutex_);
  if (order > fault_) return;
  error_.emplace(error);
  fault_ = order;
}

}  // namespace tokengrad
