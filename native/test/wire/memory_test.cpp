// Tests of memory that runs out on a thread of the pool: the call ends with an error, and the
// process goes on.
#include <atomic>
#include <cstdlib>
#include <future>
#include <new>

#include "core/wire/reading.h"
#include "test/check.h"

namespace {

/// The largest block that this program may have.
std::atomic<size_t> most_bytes{SIZE_MAX};

}  // namespace

// All forms that may take or give a block of the others, so that the sanitizers find them alike.
// Not inlined: a compiler that sees through one of a pair takes the other for a mismatch.
[[gnu::noinline]] void* operator new(size_t size) {
  void* const block = size > most_bytes ? nullptr : std::malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return size > most_bytes ? nullptr : std::malloc(size);
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, size_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, const std::nothrow_t&) noexcept {
  std::free(block);
}

namespace tokengrad {
namespace {

/// The code that a reading of `text` ends with, with blocks of so many bytes at most.
std::string code_within(size_t bytes, const std::string& text, const ReadingSizes& sizes) {
  Pool pool(2);
  std::vector<uint32_t> none;
  std::vector<float> out;
  const auto reading =
      std::make_shared<Reading>(ResultReader({"*"}, {none, none, none, out, false}), sizes);
  most_bytes = bytes;
  reading->push(pool, text);
  std::promise<std::string> code;
  reading->finish([&](std::optional<Error> error) { code.set_value(error ? error->code() : ""); });
  const std::string result = code.get_future().get();
  most_bytes = SIZE_MAX;
  return result;
}

TEST(a_reading_for_which_memory_runs_out_ends_with_an_error) {
  constexpr size_t kBytes = 1 << 20;
  const std::string text = '"' + std::string(3 * kBytes, 'x') + '"';
  for (const size_t inline_bytes : {size_t{0}, 2 * text.size()}) {
    const ReadingSizes sizes{.inline_bytes = inline_bytes};
    EXPECT_EQUAL(code_within(kBytes, text, sizes), "ERR_NATIVE");
    EXPECT_EQUAL(code_within(2 * text.size(), text, sizes), "");
  }
}

}  // namespace
}  // namespace tokengrad
