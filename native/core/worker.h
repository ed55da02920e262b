// A thread of the engine's own with a queue of jobs, so that neither the event loop nor libuv's
// pool ever computes.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "core/counted.h"
#include "core/error.h"

namespace tokengrad {

struct Job {
  /// Runs on the worker's thread. Must not throw.
  std::function<void(const CancelFlag&)> work;
  CancelFlag cancel;
  Counted<Job> counted;
};

/// Belongs to one thread, which is not the worker's own. It must be destroyed before the process
/// exits: libtorch's global objects go then, and a job may still use them.
class Worker {
 public:
  /// `threads` is the number of libtorch's intra-op threads that jobs of this worker use, itself
  /// included.
  explicit Worker(int threads);
  /// Stops and waits for the job that is running.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Jobs run one at a time, in this order. A job that comes after `stop` never runs.
  void submit(std::shared_ptr<Job> job);
  /// Takes a job out that has not begun: true. Asks one that has to stop: false.
  bool cancel(const std::shared_ptr<Job>& job);
  /// Drops what has not begun, asks the job that is running to stop, and lets the thread end. Does
  /// not wait.
  void stop();
  /// Stops and waits for the job that is running.
  void join();

 private:
  void loop(int threads);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Job>> queue_;
  std::shared_ptr<Job> running_;
  bool stopped_ = false;
  Counted<Worker> counted_;
  std::thread thread_;
};

}  // namespace tokengrad
