// Threads that turn numbers into text and back, so that the event loop does not.
#include "core/wire/pool.h"

#include <system_error>
#include <utility>

namespace tokengrad {

Pool::Pool(int threads) {
  threads_.reserve(threads);
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { loop(); });
  } catch (const std::system_error&) {
    if (threads_.empty()) throw;
  }
}

Pool::~Pool() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    queue_.clear();
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Pool::submit(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    queue_.push_back(std::move(task));
  }
  wake_.notify_one();
}

void Pool::loop() {
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopped_ || !queue_.empty(); });
      if (stopped_) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
  }
}

}  // namespace tokengrad
