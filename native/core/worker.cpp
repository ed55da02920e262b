// A thread of the engine's own with a queue of jobs.
#include "core/worker.h"

#include <ATen/Parallel.h>

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
