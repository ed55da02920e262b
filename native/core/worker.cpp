// A thread of the engine's own with a queue of jobs.
#include "core/worker.h"

#include <ATen/Parallel.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <utility>

namespace tokengrad {
namespace {

/// Sets the number of intra-op threads of the calling thread. libtorch keeps one number for the
/// process and each thread takes it over when it first asks, so both steps must be one.
void set_threads(int threads) {
  static auto* mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  at::get_num_threads();
  at::set_num_threads(threads);
}

/// glibc hands freed memory back to the system as soon as a few MiB of it lie together, and each
/// page costs a fault when it is wanted again: more time than the ops of a run take. These are the
/// bounds it comes to by itself once a block of 32 MiB has been freed. They hold for the whole
/// process, all that Node allocates included, since glibc has none for one thread; so they are set
/// once, and whatever the process sets later stays.
void keep_freed_memory() {
#ifdef __GLIBC__
  static std::once_flag once;
  std::call_once(once, [] {
    constexpr int kMiB = 1 << 20;
    mallopt(M_MMAP_THRESHOLD, 32 * kMiB);
    mallopt(M_TRIM_THRESHOLD, 64 * kMiB);
  });
#endif
}

}  // namespace

Worker::Worker(int threads) : thread_([this, threads] { loop(threads); }) {}

Worker::~Worker() { join(); }

void Worker::submit(std::shared_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    queue_.push_back(std::move(job));
  }
  wake_.notify_one();
}

bool Worker::cancel(const std::shared_ptr<Job>& job) {
  job->cancel.set();
  const std::lock_guard lock(mutex_);
  return std::erase(queue_, job) > 0;
}

void Worker::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    queue_.clear();
    if (running_) running_->cancel.set();
  }
  wake_.notify_one();
}

void Worker::join() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void Worker::loop(int threads) {
  set_threads(threads);
  keep_freed_memory();
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      running_.reset();
      wake_.wait(lock, [this] { return stopped_ || !queue_.empty(); });
      if (stopped_) return;
      running_ = std::move(queue_.front());
      queue_.pop_front();
    }
    running_->work(running_->cancel);
  }
}

}  // namespace tokengrad
