// A worker, and the way back to JavaScript.
#include "trainer/promise_queue.h"

#include <ATen/Parallel.h>

#include <utility>

#include "core/cpus.h"
#include "napi/errors.h"

namespace tokengrad::trainer {

PromiseQueue::PromiseQueue(Napi::Env env)
    : channel_(Channel::New(env, "tokengrad trainer", /*maxQueueSize=*/0,
                            /*initialThreadCount=*/1, this)),
      threads_(std::make_shared<std::atomic<int>>(available_cpus())),
      worker_(std::make_unique<Worker>(*threads_)) {
  channel_.Unref(env);
}

void PromiseQueue::close() {
  if (worker_ == nullptr) return;
  worker_.reset();
  channel_.Release();
}

Napi::Promise PromiseQueue::run(Napi::Env env, Work work) {
  if (worker_ == nullptr) throw Error("ERR_DISPOSED", "the trainer has been closed");
  // Owned by the job until it is sent to JavaScript's thread, which settles it. A job that never
  // runs takes its promise with it.
  auto pending = std::make_shared<std::unique_ptr<Pending>>(
      new Pending{Napi::Promise::Deferred::New(env), {}, {}});
  const auto promise = (*pending)->promise.Promise();
  if (unsettled_++ == 0) channel_.Ref(env);
  auto job = std::make_shared<Job>();
  job->work = [pending, work = std::move(work), threads = threads_,
               channel = channel_](const CancelFlag& cancel) mutable {
    if (at::get_num_threads() != *threads) at::set_num_threads(*threads);
    try {
      (*pending)->finish = work(cancel);
    } catch (...) {
      (*pending)->error = current_error();
    }
    // What the work holds is let go here, where freeing it does not stall JavaScript.
    work = nullptr;
    if (channel.NonBlockingCall(pending->get()) == napi_ok) pending->release();
  };
  worker_->submit(std::move(job));
  return promise;
}

void PromiseQueue::settle(Napi::Env env, Napi::Function, PromiseQueue* queue, Pending* pending) {
  const std::unique_ptr<Pending> owned(pending);
  if (env == nullptr) return;
  if (--queue->unsettled_ == 0) queue->channel_.Unref(env);
  const auto& promise = owned->promise;
  if (owned->error) {
    promise.Reject(to_js(env, *owned->error).Value());
    return;
  }
  try {
    promise.Resolve(owned->finish(env));
  } catch (const Napi::Error& error) {
    promise.Reject(error.Value());
  }
}

}  // namespace tokengrad::trainer
