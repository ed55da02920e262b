// Counts the objects of a type that are alive, so that tests can show that none is left behind.
#pragma once

#include <atomic>
#include <cstdint>

namespace tokengrad {

/// A member of each `T` that is to be counted.
template <typename T>
class Counted {
 public:
  Counted() { live_.fetch_add(1, std::memory_order_relaxed); }
  Counted(const Counted&) : Counted() {}
  Counted& operator=(const Counted&) = default;
  ~Counted() { live_.fetch_sub(1, std::memory_order_relaxed); }

  /// How many there are in this process, on all of its threads.
  static int64_t live() { return live_.load(std::memory_order_relaxed); }

 private:
  inline static std::atomic<int64_t> live_{0};
};

}  // namespace tokengrad
