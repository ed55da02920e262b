// Tests of whole texts: cut anywhere, written by several threads.
#include "core/wire/encoding.h"

#include <atomic>
#include <cmath>
#include <random>

#include "test/check.h"
#include "test/wire/texts.h"

namespace tokengrad::test {
namespace {

TEST(rows_end_where_their_brackets_are) {
  const std::vector<float> values(100, 0.25f);
  const std::vector<uint32_t> runs{3, 40, 90, 8};
  std::vector<TextRow> rows;
  Texts texts{"{"};
  for (size_t length = 0; length < 100; length += 7) {
    TextRow row{RowType::kFloat32, RowRule::kNumber, values.data(), length, std::nullopt};
    if (length >= 98) row = {RowType::kFloat32, RowRule::kNumber, values.data(), 98, runs, true};
    rows.push_back(row);
    texts.emplace_back(length % 3, '-');
  }
  for (size_t piece = 1; piece < 3000; piece += 13) {
    const auto encoding = std::make_unique<Encoding>(TextPlan(fixed(texts), rows, piece));
    const Blocks blocks(encoding->plan());
    Pool pool(3);
    EXPECT(!finish(encoding, pool, blocks));
    const std::string text = blocks.joined(encoding->lengths());
    const std::vector<size_t> ends = encoding->row_ends();
    EXPECT_EQUAL(ends.size(), rows.size());
    size_t bracket = 0;
    for (const size_t end : ends) {
      bracket = text.find(']', bracket) + 1;
      EXPECT_EQUAL(end, bracket);
    }
  }
}

TEST(runs_that_do_not_fit_are_refused) {
  const std::vector<float> values(8);
  const auto encoded = [&](const std::vector<uint32_t>& runs) {
    encode({"", ""}, {{RowType::kFloat32, RowRule::kNumber, values.data(), 8, runs}});
  };
  EXPECT_CODE("", encoded({0, 8}));
  EXPECT_CODE("ERR_REQUEST", encoded({0, 9}));
  EXPECT_CODE("ERR_REQUEST", encoded({4, 2, 5, 1}));
  EXPECT_CODE("ERR_REQUEST", encoded({4, 2, 3, 1}));
  EXPECT_CODE("ERR_REQUEST", encoded({4}));
  EXPECT_CODE("ERR_REQUEST", encoded({0xffffffff, 0xffffffff}));
  EXPECT_CODE("ERR_REQUEST", encode({"a"}, {row_of(RowType::kFloat32, RowRule::kNumber, values)}));
}

TEST(texts_are_the_same_however_they_are_cut) {
  std::mt19937 random(5);
  std::vector<std::vector<float>> rows(40);
  Texts texts{"["};
  std::vector<TextRow> given;
  for (auto& row : rows) {
    row.resize(random() % 50);
    for (float& value : row) value = std::ldexp(static_cast<float>(random()), -32 - random() % 9);
    given.push_back(row_of(RowType::kFloat32, RowRule::kNumber, row));
    texts.push_back(std::string(random() % 30, ' ') + ",");
  }
  const std::string whole = encode(texts, given, size_t{1} << 30);
  Pool pool(3);
  for (size_t piece = 1; piece < 1500; piece += 7) {
    EXPECT_EQUAL(encode(texts, given, piece), whole);
    const auto encoding = std::make_unique<Encoding>(TextPlan(fixed(texts), given, piece));
    const Blocks blocks(encoding->plan());
    EXPECT(!finish(encoding, pool, blocks));
    EXPECT_EQUAL(blocks.joined(encoding->lengths()), whole);
  }
}

/// Bytes that all pieces of a row take.
template <typename T>
size_t capacity(RowType type, RowRule rule, const std::vector<T>& values) {
  const TextPlan plan(fixed({"", ""}), {row_of(type, rule, values)}, 1 << 20);
  size_t sum = 0;
  for (size_t i = 0; i < plan.pieces(); ++i) sum += plan.capacity(i);
  return sum;
}

TEST(the_memory_for_ids_and_weights_goes_by_their_values) {
  using enum RowType;
  using enum RowRule;
  constexpr size_t kCount = 10'000;
  constexpr size_t kMore = 200;
  EXPECT(capacity(kInt32, kId, std::vector<int32_t>(kCount, 9)) < 3 * kCount + kMore);
  EXPECT(capacity(kInt32, kId, std::vector<int32_t>(kCount, 150'000)) < 7 * kCount + kMore);
  EXPECT(capacity(kInt64, kQuotedId, std::vector<int64_t>(kCount, 150'000)) < 7 * kCount + kMore);
  EXPECT(capacity(kFloat32, kWeight, std::vector<float>(kCount, 1)) < 2 * kCount + kMore);
  EXPECT(capacity(kFloat64, kWeight, std::vector<double>(kCount, 0)) < 2 * kCount + kMore);
  EXPECT(capacity(kFloat32, kWeight, std::vector<float>(kCount, 0.1f)) > 10 * kCount);
}

TEST(an_encoding_that_is_cancelled_says_so_once_it_has_stopped) {
  Pool pool(2);
  const std::vector<float> values(200'000, 0.1f);
  const auto encoding = std::make_unique<Encoding>(
      TextPlan(fixed({"", ""}), {row_of(RowType::kFloat32, RowRule::kNumber, values)}, 1000));
  const Blocks blocks(encoding->plan());
  encoding->cancel();
  const std::optional<Error> error = finish(encoding, pool, blocks);
  EXPECT(error && error->code() == "ERR_ABORTED");
}

TEST(a_pool_can_end_while_it_works) {
  for (int round = 0; round < 20; ++round) {
    const std::vector<float> values(100'000, 0.1f);
    const auto encoding = std::make_unique<Encoding>(
        TextPlan(fixed({"", ""}), {row_of(RowType::kFloat32, RowRule::kNumber, values)}, 1000));
    const Blocks blocks(encoding->plan());
    std::atomic<int> done{0};
    Pool pool(2);
    encoding->start(pool, blocks.spans, [&](const std::optional<Error>&) { ++done; });
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
}

}  // namespace
}  // namespace tokengrad::test
