// Tests of reading on threads: all of the text, faults, cancelling, and memory that is let go of.
#include "core/wire/reading.h"

#include <algorithm>
#include <future>
#include <random>

#include "test/check.h"

namespace tokengrad {
namespace {

/// One row of many values, as text.
struct Text {
  std::vector<uint32_t> lengths{300'000};
  std::vector<uint32_t> run_counts{1};
  std::vector<uint32_t> runs{0, 300'000};
  std::vector<float> out = std::vector<float>(300'000);
  std::string text = "{\"rows\":[[";

  Text() {
    for (uint32_t i = 0; i < lengths[0]; ++i)
      text.append("-").append(std::to_string(i)).append(".5,");
    text.back() = ']';
    text += "],\"x\":1}";
  }
  std::shared_ptr<Reading> reading() {
    return std::make_shared<Reading>(
        ResultReader({"rows", "*"}, {lengths, run_counts, runs, out, false}));
  }
};

/// Pushes a text in parts, each in memory that is freed as soon as it is consumed.
std::optional<Error> push_all(const std::shared_ptr<Reading>& reading, Pool& pool,
                              std::string_view text, size_t part) {
  std::deque<std::string> held;
  size_t freed = 0;
  const auto free_consumed = [&] {
    for (; freed < reading->consumed(); ++freed) held.pop_front();
  };
  for (; !text.empty(); text.remove_prefix(std::min(part, text.size()))) {
    held.emplace_back(text.substr(0, part));
    if (reading->push(pool, held.back()) > 1'000'000) {
      std::promise<void> drained;
      reading->when_drained([&] { drained.set_value(); });
      drained.get_future().wait();
    }
    free_consumed();
  }
  std::promise<std::optional<Error>> done;
  reading->finish([&](std::optional<Error> error) { done.set_value(std::move(error)); });
  auto error = done.get_future().get();
  free_consumed();
  EXPECT(held.empty());
  return error;
}

TEST(a_result_is_read_whole_on_the_pool) {
  Pool pool(2);
  for (const size_t part : {100, 5000, 70'000, 10'000'000}) {
    Text text;
    const auto reading = text.reading();
    const auto error = push_all(reading, pool, text.text, part);
    EXPECT_EQUAL(error ? error->what() : std::string(), "");
    EXPECT_EQUAL(reading->result().rest(), "{\"rows\":[[]],\"x\":1}");
    for (uint32_t i = 0; i < text.lengths[0]; ++i) EXPECT_EQUAL(text.out[i], -(i + 0.5f));
  }
}

TEST(several_results_are_read_at_once) {
  Pool pool(2);
  std::vector<std::future<bool>> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(std::async(std::launch::async, [&pool] {
      Text text;
      return !push_all(text.reading(), pool, text.text, 3000) && text.out.back() == -299999.5f;
    }));
  }
  for (auto& good : all) EXPECT(good.get());
}

TEST(a_result_that_is_refused_takes_no_more) {
  Pool pool(2);
  for (const size_t place : {20, 50'000, 1'000'000}) {
    Text text;
    text.text[place] = 'x';
    const auto reading = text.reading();
    const auto error = push_all(reading, pool, text.text, 4096);
    EXPECT(error && error->code() == "ERR_RESULT");
    EXPECT(reading->failed());
  }
}

TEST(of_several_faults_the_first_in_the_text_is_told) {
  Pool pool(3);
  for (int round = 0; round < 60; ++round) {
    Text text;
    std::mt19937 random(round);
    // Far from each other and close, in one passage and in several.
    const size_t first = 20 + random() % 2'000'000;
    const size_t spread = round % 3 == 0 ? 100 : 500'000;
    for (int i = 0; i < 4; ++i) text.text[first + 1 + random() % spread] = '?';
    text.text[first] = '?';
    const size_t position = std::count(text.text.begin(), text.text.begin() + first, ',');
    const auto error = push_all(text.reading(), pool, text.text, 50'000);
    EXPECT(error && error->code() == "ERR_RESULT");
    EXPECT_EQUAL(test::fact(*error, "position", -1.0), static_cast<double>(position));
  }
}

TEST(a_small_result_is_read_where_it_is_pushed) {
  Pool pool(1);
  Text text;
  const auto reading = text.reading();
  EXPECT_EQUAL(reading->push(pool, "{\"status\":"), 0u);
  EXPECT_EQUAL(reading->push(pool, "1}"), 0u);
  EXPECT_EQUAL(reading->consumed(), 2u);
  bool drained = false;
  reading->when_drained([&] { drained = true; });
  EXPECT(drained);
  bool done = false;
  reading->finish([&](const std::optional<Error>& error) { done = !error; });
  EXPECT(done);
  EXPECT_EQUAL(reading->result().rest(), "{\"status\":1}");
}

TEST(an_empty_part_waits_behind_those_on_the_pool) {
  Pool pool(1);
  std::promise<void> turn;
  pool.submit([&] { turn.get_future().wait(); });
  Text text;
  const auto reading = text.reading();
  const std::string_view all = text.text;
  EXPECT_EQUAL(reading->push(pool, ""), 0u);
  EXPECT_EQUAL(reading->consumed(), 1u);
  EXPECT_EQUAL(reading->push(pool, all.substr(0, 100'000)), 100'000u);
  EXPECT_EQUAL(reading->push(pool, ""), 100'000u);
  EXPECT_EQUAL(reading->push(pool, all.substr(100'000)), all.size());
  EXPECT_EQUAL(reading->consumed(), 1u);
  std::promise<std::optional<Error>> done;
  reading->finish([&](std::optional<Error> error) { done.set_value(std::move(error)); });
  turn.set_value();
  EXPECT(!done.get_future().get());
  EXPECT_EQUAL(reading->consumed(), 4u);
  EXPECT_EQUAL(text.out.back(), -299999.5f);
}

TEST(a_reading_can_be_cancelled_at_any_time) {
  Pool pool(2);
  Text text;
  for (const size_t pushed : {size_t{0}, size_t{100}, size_t{70'000}, text.text.size()}) {
    const auto reading = text.reading();
    reading->push(pool, std::string_view(text.text).substr(0, pushed));
    reading->cancel();
    std::promise<std::optional<Error>> done;
    reading->finish([&](std::optional<Error> error) { done.set_value(std::move(error)); });
    const auto error = done.get_future().get();
    EXPECT(error && error->code() == "ERR_ABORTED");
    // The values' memory may be another's from now on.
    std::fill(text.out.begin(), text.out.end(), 7);
    std::promise<void> passed;
    pool.submit([&] { passed.set_value(); });
    passed.get_future().wait();
    EXPECT(std::count(text.out.begin(), text.out.end(), 7) == std::ssize(text.out));
  }
}

TEST(a_pool_can_end_while_a_result_waits) {
  for (int round = 0; round < 20; ++round) {
    Text text;
    Pool pool(2);
    const auto reading = text.reading();
    for (int part = 0; part < 20; ++part) {
      reading->push(pool, std::string_view(text.text).substr(part * 100'000, 100'000));
    }
    reading->finish([](const std::optional<Error>&) {});
  }
}

}  // namespace
}  // namespace tokengrad
