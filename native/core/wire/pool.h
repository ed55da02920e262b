// Threads that turn numbers into text and back, so that the event loop does not.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tokengrad {

class Pool {
 public:
  using Task = std::function<void()>;

  /// Has fewer threads where the system refuses some, and throws `std::system_error` where it
  /// refuses all.
  explicit Pool(int threads);
  /// Waits for the tasks that are running; those that wait never run.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int threads() const { return static_cast<int>(threads_.size()); }
  /// Tasks begin in this order. They must be short, so that others get their turn, and must not
  /// throw.
  void submit(Task task);

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> queue_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tokengrad
