// Work on the trainer's own thread, and the promises that settle with what it gives.
#pragma once

#include <napi.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "core/error.h"
#include "core/worker.h"

namespace tokengrad::trainer {

// Makes the JavaScript value of finished work, on the JavaScript thread.
using Finish = std::function<Napi::Value(Napi::Env)>;
// Runs on the trainer's thread and may throw anything.
using Work = std::function<Finish(const CancelFlag& cancel)>;

// One per environment. Work is done in the order in which it is asked for. What is pending keeps
// the process alive, an idle thread does not.
class PromiseQueue {
 public:
  explicit PromiseQueue(Napi::Env env);

  // The promise rejects with an `Error` that has a `code`.
  Napi::Promise run(Napi::Env env, Work work);

  // Intra-op threads of libtorch for the work that begins from now on.
  void set_threads(int threads) { *threads_ = threads; }

  // Ends the thread; promises that are pending never settle. Waits for the work that is running.
  // Must come before the process exits. Safe to call twice.
  void close();

 private:
  struct Pending {
    Napi::Promise::Deferred promise;
    Finish finish;
    std::optional<Error> error;
  };
  static void settle(Napi::Env env, Napi::Function, PromiseQueue* queue, Pending* pending);
  using Channel = Napi::TypedThreadSafeFunction<PromiseQueue, Pending, &PromiseQueue::settle>;

  Channel channel_;
  std::shared_ptr<std::atomic<int>> threads_;
  std::unique_ptr<Worker> worker_;  // gone when closed
  int unsettled_ = 0;               // JavaScript's thread only
};

}  // namespace tokengrad::trainer
