// Tests of the worker: order, cancelling, stopping with jobs in every state.
#include "core/worker.h"

#include <ATen/Parallel.h>

#include <atomic>
#include <chrono>
#include <future>

#include "test/check.h"

namespace tokengrad {
namespace {

std::shared_ptr<Job> job_of(std::function<void(const CancelFlag&)> work) {
  auto job = std::make_shared<Job>();
  job->work = std::move(work);
  return job;
}

/// Runs until it is cancelled, and tells when it has begun.
std::shared_ptr<Job> endless(std::promise<void>& begun) {
  return job_of([&begun](const CancelFlag& cancel) {
    begun.set_value();
    while (!cancel.is_set()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
}

TEST(worker_runs_jobs_in_their_order_on_one_other_thread) {
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  std::promise<void> done;
  Worker worker(1);
  for (int i = 0; i < 50; ++i) {
    worker.submit(job_of([&, i](const CancelFlag&) {
      order.push_back(i);
      threads.push_back(std::this_thread::get_id());
      if (i == 49) done.set_value();
    }));
  }
  done.get_future().wait();
  worker.join();
  for (int i = 0; i < 50; ++i) EXPECT_EQUAL(order.at(i), i);
  for (const std::thread::id id : threads)
    EXPECT(id == threads[0] && id != std::this_thread::get_id());
}

TEST(worker_sets_its_own_number_of_threads) {
  const int here = at::get_num_threads();
  Worker one(1);
  Worker three(3);
  const auto threads_of = [](Worker& worker) {
    std::promise<int> threads;
    worker.submit(job_of([&](const CancelFlag&) { threads.set_value(at::get_num_threads()); }));
    return threads.get_future().get();
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQUAL(threads_of(three), 3);
    EXPECT_EQUAL(threads_of(one), 1);
  }
  EXPECT_EQUAL(at::get_num_threads(), here);
}

TEST(worker_takes_out_what_waits_and_stops_what_runs) {
  std::promise<void> begun;
  std::atomic<bool> ran{false};
  Worker worker(1);
  const auto running = endless(begun);
  const auto waiting = job_of([&](const CancelFlag&) { ran = true; });
  worker.submit(running);
  worker.submit(waiting);
  begun.get_future().wait();
  EXPECT(worker.cancel(waiting));
  EXPECT(!worker.cancel(waiting));
  EXPECT(!worker.cancel(running));
  worker.join();
  EXPECT(!ran);
}

TEST(worker_can_end_with_jobs_in_every_state) {
  std::atomic<bool> ran{false};
  {
    std::promise<void> begun;
    Worker worker(2);
    worker.submit(endless(begun));
    for (int i = 0; i < 10; ++i) worker.submit(job_of([&](const CancelFlag&) { ran = true; }));
    begun.get_future().wait();
  }
  EXPECT(!ran);
  Worker stopped(1);
  stopped.stop();
  stopped.submit(job_of([&](const CancelFlag&) { ran = true; }));
  stopped.join();
  stopped.join();
  EXPECT(!ran);
}

}  // namespace
}  // namespace tokengrad
