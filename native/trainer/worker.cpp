// A queue, a thread, and the way back to JavaScript.
#include "trainer/worker.h"

#include <ATen/Parallel.h>

#include "core/cpus.h"

namespace tokengrad {

Worker::Worker(Napi::Env env)
    : notify_(decltype(notify_)::New(env, "tokengrad trainer", 0, 1, this)),
      threads_(available_cpus()),
      thread_([this] { loop(); }) {
  notify_.Unref(env);
}

Worker::~Worker() {
  cancel_.set();
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  arrived_.notify_one();
  thread_.join();
  notify_.Abort();
}

Napi::Promise Worker::run(Napi::Env env, Job job) {
  auto task = std::make_unique<Task>(
      Task{std::move(job), Napi::Promise::Deferred::New(env), nullptr, std::nullopt});
  const auto promise = task->promise.Promise();
  if (pending_++ == 0) notify_.Ref(env);
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(task));
  }
  arrived_.notify_one();
  return promise;
}

void Worker::loop() {
  while (true) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return closing_ || !queue_.empty(); });
    if (closing_) return;
    auto* task = queue_.front().release();
    queue_.pop_front();
    lock.unlock();
    if (at::get_num_threads() != threads_) at::set_num_threads(threads_);
    try {
      task->finish = task->job(cancel_);
    } catch (...) {
      task->error = current_error();
    }
    // What the job holds is let go here, where freeing it does not stall JavaScript.
    task->job = nullptr;
    if (notify_.NonBlockingCall(task) != napi_ok) delete task;
  }
}

void Worker::settle(Napi::Env env, Napi::Function, Worker* worker, Task* task) {
  const std::unique_ptr<Task> owner(task);
  if (env == nullptr) return;
  const Napi::HandleScope scope(env);
  if (--worker->pending_ == 0) worker->notify_.Unref(env);
  const auto& promise = task->promise;
  if (task->error) {
    auto error = Napi::Error::New(env, task->error->what());
    error.Set("code", task->error->code());
    promise.Reject(error.Value());
    return;
  }
  try {
    promise.Resolve(task->finish(env));
  } catch (const Napi::Error& error) {
    promise.Reject(error.Value());
  }
}

}  // namespace tokengrad
