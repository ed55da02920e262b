// Tests of loops that are split among threads.
#include "core/parallel.h"

#include <ATen/Parallel.h>

#include <atomic>
#include <thread>
#include <vector>

#include "test/check.h"

namespace tokengrad {
namespace {

constexpr int64_t kCount = 64;
/// Enough for each element to be worth a thread.
constexpr int64_t kMuch = int64_t{1} << 40;

TEST(parallel_for_covers_every_element_once) {
  for (const int64_t work : {int64_t{0}, int64_t{1}, kMuch}) {
    std::vector<std::atomic<int>> seen(kCount);
    parallel_for(kCount, work, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
    });
    for (const std::atomic<int>& times : seen) EXPECT_EQUAL(times.load(), 1);
  }
}

TEST(parallel_for_throws_on_the_caller_what_any_range_throws) {
  const int before = at::get_num_threads();
  at::set_num_threads(4);
  std::atomic<int> ranges{0};
  std::atomic<bool> elsewhere{false};
  const auto throw_at = [&](int64_t element) {
    const std::thread::id caller = std::this_thread::get_id();
    parallel_for(kCount, kMuch, [&](int64_t begin, int64_t end) {
      ++ranges;
      if (element < begin || element >= end) return;
      elsewhere = elsewhere || std::this_thread::get_id() != caller;
      throw Error("ERR_INDEX", "element " + std::to_string(element));
    });
  };
  for (int64_t element = 0; element < kCount; ++element) {
    EXPECT_CODE("ERR_INDEX", throw_at(element));
    EXPECT_CODE("", throw_at(kCount));
  }
  EXPECT(elsewhere);
  EXPECT(ranges > 2 * kCount);
  // Several at once: one of them.
  EXPECT_CODE("ERR_INDEX", parallel_for(kCount, kMuch, [](int64_t, int64_t) {
                throw Error("ERR_INDEX", "each of them");
              }));
  at::set_num_threads(before);
}

}  // namespace
}  // namespace tokengrad
