// A thread of the engine's own with a queue of jobs.
#include "core/worker.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <set>
#include <utility>

namespace tokengrad {
namespace {

/// Every live worker of the process. A process may exit while jobs run, in any thread; they must be
/// off libtorch before its own global objects are destroyed, which happens after those of this
/// library.
class Registry {
 public:
  void add(Worker* worker) {
    const std::lock_guard lock(mutex_);
    workers_.insert(worker);
  }
  void remove(Worker* worker) {
    const std::lock_guard lock(mutex_);
    workers_.erase(worker);
  }
  ~Registry() {
    const std::lock_guard lock(mutex_);
    for (Worker* worker : workers_) worker->stop();
    for (Worker* worker : workers_) worker->join();
  }

 private:
  std::mutex mutex_;
  std::set<Worker*> workers_;
};

Registry registry;

/// Sets the number of intra-op threads of the calling thread. libtorch keeps one number for the
/// process and each thread takes it over when it first asks, so both steps must be one.
void set_threads(int threads) {
  static auto* mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  at::get_num_threads();
  at::set_num_threads(threads);
}

}  // namespace

Worker::Worker(int threads) : thread_([this, threads] { loop(threads); }) { registry.add(this); }

Worker::~Worker() {
  registry.remove(this);
  join();
}

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
  const std::lock_guard lock(join_mutex_);
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
