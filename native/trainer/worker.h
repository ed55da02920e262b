// The thread on which all of the trainer's work is done, in the order in which it is asked for.
#pragma once

#include <napi.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "core/error.h"

namespace tokengrad {

// Makes the JavaScript value of a finished job, on the JavaScript thread.
using Finish = std::function<Napi::Value(Napi::Env)>;
// Runs on the worker thread and may throw anything; `cancel` is set when the environment ends.
using Job = std::function<Finish(const CancelFlag& cancel)>;

// One per environment. An unfinished job keeps the process alive, an idle thread does not.
class Worker {
 public:
  explicit Worker(Napi::Env env);
  ~Worker();

  // Queues a job; the promise rejects with an error that has a `code`.
  Napi::Promise run(Napi::Env env, Job job);

  // Intra-op threads of libtorch for the jobs that start from now on.
  void set_threads(int threads) { threads_ = threads; }

 private:
  struct Task {
    Job job;
    Napi::Promise::Deferred promise;
    Finish finish;
    std::optional<Error> error;
  };
  void loop();
  // Settles a task on the JavaScript thread; without an environment it is only let go.
  static void settle(Napi::Env env, Napi::Function, Worker* worker, Task* task);

  Napi::TypedThreadSafeFunction<Worker, Task, &Worker::settle> notify_;
  int pending_ = 0;  // JavaScript thread only
  std::atomic<int> threads_;
  CancelFlag cancel_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::unique_ptr<Task>> queue_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace tokengrad
