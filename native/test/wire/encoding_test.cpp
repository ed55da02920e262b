// Tests of whole texts: rows of every type, cut anywhere, written by several threads.
#include "core/wire/encoding.h"

#include <atomic>
#include <charconv>
#include <cmath>
#include <future>
#include <limits>
#include <numeric>
#include <random>

#include "core/wire/decimal_text.h"
#include "test/check.h"

namespace tokengrad {
namespace {

using Texts = std::vector<std::string>;

FixedTexts fixed(const Texts& texts) {
  FixedTexts result;
  for (const std::string& text : texts) {
    result.all += text;
    result.ends.push_back(result.all.size());
  }
  return result;
}

template <typename T>
TextRow row_of(RowType type, RowRule rule, const std::vector<T>& values) {
  return {type, rule, values.data(), values.size(), std::nullopt};
}

struct Blocks {
  std::vector<std::string> memory;
  std::vector<std::span<char>> spans;

  explicit Blocks(const TextPlan& plan) {
    for (size_t i = 0; i < plan.pieces(); ++i) memory.emplace_back(plan.capacity(i), '#');
    for (std::string& block : memory) spans.emplace_back(block);
  }
  std::string joined(const std::vector<size_t>& lengths) const {
    std::string text;
    for (size_t i = 0; i < memory.size(); ++i) text += memory[i].substr(0, lengths[i]);
    return text;
  }
};

std::string encode(const Texts& texts, const std::vector<TextRow>& rows, size_t piece = 4096) {
  Encoding encoding({fixed(texts), rows, piece});
  const Blocks blocks(encoding.plan());
  encoding.run(blocks.spans);
  return blocks.joined(encoding.lengths());
}

/// Waits for an encoding that runs on a pool.
std::optional<Error> finish(const std::shared_ptr<Encoding>& encoding, Pool& pool,
                            const Blocks& blocks) {
  std::promise<std::optional<Error>> done;
  encoding->start(pool, blocks.spans,
                  [&](std::optional<Error> error) { done.set_value(std::move(error)); });
  return done.get_future().get();
}

TEST(texts_hold_rows_of_every_type) {
  const std::vector<float> floats{0.5f, -0.0f, 1e-3f};
  const std::vector<double> doubles{0.1, 1e-50, -2};
  const std::vector<float> weights{0, 1, 0.25f, -0.0f};
  const std::vector<double> wide_weights{0, 1, 0.1};
  const std::vector<uint16_t> halves{0x3dcd, 0xbf80, 0};
  const std::vector<int32_t> ids{0, 7, 2147483647};
  const std::vector<int64_t> large{5, (int64_t{1} << 53) - 1, int64_t{1} << 53,
                                   std::numeric_limits<int64_t>::max()};
  const std::string text = encode(
      {"{\"a\":", ",\"b\":", ",\"c\":", ",\"d\":", ",\"e\":", ",\"f\":", ",\"g\":", ",\"h\":", "}"},
      {row_of(RowType::kFloat32, RowRule::kNumber, floats),
       row_of(RowType::kFloat64, RowRule::kNumber, doubles),
       row_of(RowType::kFloat32, RowRule::kWeight, weights),
       row_of(RowType::kFloat64, RowRule::kWeight, wide_weights),
       row_of(RowType::kBfloat16, RowRule::kNumber, halves),
       row_of(RowType::kInt32, RowRule::kQuotedId, ids),
       row_of(RowType::kInt64, RowRule::kQuotedId, large),
       row_of(RowType::kInt64, RowRule::kId, large)});
  EXPECT_EQUAL(text,
               "{\"a\":[0.5,-0,1e-3],\"b\":[0.1,0,-2],\"c\":[0,1,0.25,0],\"d\":[0,1,0.1],"
               "\"e\":[0.1,-1,0],\"f\":[0,7,2147483647],"
               "\"g\":[5,9007199254740991,\"9007199254740992\",\"9223372036854775807\"],"
               "\"h\":[5,9007199254740991,9007199254740992,9223372036854775807]}");
}

TEST(texts_without_rows_and_rows_without_values) {
  EXPECT_EQUAL(encode({"{}"}, {}), "{}");
  EXPECT_EQUAL(encode({""}, {}), "");
  const std::vector<float> none;
  const TextRow empty = row_of(RowType::kFloat32, RowRule::kNumber, none);
  EXPECT_EQUAL(encode({"", ",", ""}, {empty, empty}), "[],[]");
}

TEST(packed_rows_have_zeros_outside_of_their_runs) {
  const std::vector<float> values{1.5f, -2, 3};
  const std::vector<uint32_t> runs{1, 2, 5, 1};
  const std::vector<uint32_t> all{0, 3};
  const std::vector<uint32_t> none;
  const auto packed = [&](size_t length, const std::vector<uint32_t>& at) {
    return TextRow{RowType::kFloat32, RowRule::kNumber, values.data(), length, at, true};
  };
  for (size_t piece = 1; piece < 300; ++piece) {
    EXPECT_EQUAL(
        encode({"", "", "", ""}, {packed(7, runs), packed(3, all), packed(2, none)}, piece),
        "[0,1.5,-2,0,0,3,0][1.5,-2,3][0,0]");
  }
}

TEST(full_rows_have_zeros_outside_of_their_runs) {
  const std::vector<float> floats{0, 1.5f, -2, -0.0f, 0, 3, 0};
  const std::vector<double> doubles(floats.begin(), floats.end());
  const std::vector<uint16_t> halves{0, 0x3fc0, 0xc000, 0x8000, 0, 0x4040, 0};
  const std::vector<int32_t> ids{0, 1, 2, 0, 0, 3, 0};
  const std::vector<int64_t> large(ids.begin(), ids.end());
  const std::vector<uint32_t> runs{1, 2, 5, 1};
  const auto full = [&runs](TextRow row) {
    row.runs = runs;
    return row;
  };
  for (size_t piece = 1; piece < 300; ++piece) {
    EXPECT_EQUAL(encode({"", "", "", "", "", ""},
                        {full(row_of(RowType::kFloat32, RowRule::kNumber, floats)),
                         full(row_of(RowType::kFloat64, RowRule::kNumber, doubles)),
                         full(row_of(RowType::kBfloat16, RowRule::kNumber, halves)),
                         full(row_of(RowType::kInt32, RowRule::kId, ids)),
                         full(row_of(RowType::kInt64, RowRule::kQuotedId, large))},
                        piece),
                 "[0,1.5,-2,0,0,3,0][0,1.5,-2,0,0,3,0][0,1.5,-2,0,0,3,0][0,1,2,0,0,3,0]"
                 "[0,1,2,0,0,3,0]");
  }
}

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
    const auto encoding = std::make_shared<Encoding>(TextPlan(fixed(texts), rows, piece));
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
    const auto encoding = std::make_shared<Encoding>(TextPlan(fixed(texts), given, piece));
    const Blocks blocks(encoding->plan());
    EXPECT(!finish(encoding, pool, blocks));
    EXPECT_EQUAL(blocks.joined(encoding->lengths()), whole);
  }
}

TEST(rows_with_the_longest_texts_fit_into_their_blocks) {
  const std::vector<float> floats(1000, -std::bit_cast<float>(0x00c5a3d7u));
  const std::vector<float> fixed(1000, -0.0012345679f);
  std::vector<uint16_t> halves(0xff80);
  std::iota(halves.begin(), halves.end(), 0);
  std::erase_if(halves, [](uint16_t bits) { return (bits & 0x7f80) == 0x7f80; });
  const std::vector<int32_t> ids(1000, std::numeric_limits<int32_t>::max());
  const std::vector<int64_t> large(1000, std::numeric_limits<int64_t>::max());
  // Blocks are strings of exactly the capacity: the sanitizers see a byte too many.
  encode({"", "", "", "", "", ""},
         {row_of(RowType::kFloat32, RowRule::kNumber, floats),
          row_of(RowType::kFloat32, RowRule::kNumber, fixed),
          row_of(RowType::kBfloat16, RowRule::kNumber, halves),
          row_of(RowType::kInt32, RowRule::kId, ids),
          row_of(RowType::kInt64, RowRule::kQuotedId, large)},
         1000);
}

/// Row and position of the value that is refused.
template <typename T>
std::pair<double, double> refused(RowType type, RowRule rule, const std::vector<T>& values,
                                  size_t piece = 4096) {
  const std::vector<T> good(3, T(1));
  try {
    encode({"", "", ""}, {row_of(type, rule, good), row_of(type, rule, values)}, piece);
  } catch (const Error& error) {
    EXPECT_EQUAL(error.code(), std::string("ERR_VALUE"));
    return {test::fact(error, "row", -1.0), test::fact(error, "position", -1.0)};
  }
  return {-1, -1};
}

TEST(values_that_cannot_be_written_are_named) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::nanf("");
  const std::pair<double, double> place{1, 2};
  using enum RowType;
  using enum RowRule;
  for (const size_t piece : {1, 60, 4096}) {
    EXPECT(refused<float>(kFloat32, kNumber, {1, 2, nan, nan}, piece) == place);
    EXPECT(refused<float>(kFloat32, kNumber, {1, 2, infinity}, piece) == place);
    EXPECT(refused<float>(kFloat32, kNumber, {1, 2, -infinity}, piece) == place);
    EXPECT(refused<double>(kFloat64, kNumber, {1, 2, 3.5e38}, piece) == place);
    EXPECT(refused<uint16_t>(kBfloat16, kNumber, {1, 2, 0x7f80}, piece) == place);
    EXPECT(refused<uint16_t>(kBfloat16, kNumber, {1, 2, 0xffc0}, piece) == place);
    EXPECT(refused<float>(kFloat32, kWeight, {1, 2, -1}, piece) == place);
    EXPECT(refused<float>(kFloat32, kWeight, {1, 2, nan}, piece) == place);
    EXPECT(refused<double>(kFloat64, kWeight, {1, 2, 1e-46}, piece) == place);
    EXPECT(refused<double>(kFloat64, kWeight, {1, 2, 1e39}, piece) == place);
    EXPECT(refused<int32_t>(kInt32, kId, {1, 2, -1}, piece) == place);
    EXPECT(refused<int64_t>(kInt64, kQuotedId, {1, 2, -1}, piece) == place);
  }
}

/// The position that is refused of a row which holds 0 but at some positions, and has runs.
template <typename T>
double refused_outside(RowType type, RowRule rule, std::vector<std::pair<size_t, T>> others,
                       size_t piece) {
  const std::vector<uint32_t> runs{100, 50, 1200, 10};
  std::vector<T> values(2000);
  for (const auto& [position, value] : others) values[position] = value;
  TextRow row = row_of(type, rule, values);
  row.runs = runs;
  try {
    encode({"", ""}, {row}, piece);
  } catch (const Error& error) {
    EXPECT_EQUAL(error.code(), std::string("ERR_VALUE"));
    return test::fact(error, "position", -1.0);
  }
  return -1;
}

TEST(values_outside_of_runs_that_are_not_0_are_named) {
  using enum RowType;
  using enum RowRule;
  for (const size_t piece : {60, 4096, 1 << 20}) {
    for (const double place : {0, 99, 150, 405, 406, 1199, 1210, 1999}) {
      const auto at = static_cast<size_t>(place);
      const auto outside = [&]<typename T>(RowType type, RowRule rule, std::vector<T> bad, T zero) {
        for (const T value : bad) {
          EXPECT_EQUAL(refused_outside<T>(type, rule, {{at, value}, {1999, value}}, piece), place);
        }
        const std::vector<std::pair<size_t, T>> good{{at, zero}, {100, T(1)}, {1209, T(1)}};
        EXPECT_EQUAL(refused_outside<T>(type, rule, good, piece), -1);
      };
      outside(kFloat32, kNumber, std::vector{0.5f, -0.5f, 1e-45f, std::nanf("")}, -0.0f);
      outside(kFloat32, kWeight, std::vector{1.0f}, -0.0f);
      outside(kFloat64, kNumber, std::vector{0.5, -0.5, 1e-300}, -0.0);
      outside(kBfloat16, kNumber, std::vector<uint16_t>{1, 0x8001, 0x7f80}, uint16_t{0x8000});
      outside(kInt32, kId, std::vector<int32_t>{1, std::numeric_limits<int32_t>::min()}, 0);
      outside(kInt64, kQuotedId, std::vector{int64_t{1}, std::numeric_limits<int64_t>::min()},
              int64_t{0});
    }
  }
  // Faults within runs and outside of them are found in the order of the positions.
  const std::vector<std::pair<size_t, float>> both{{120, std::nanf("")}, {900, 1}};
  EXPECT_EQUAL(refused_outside<float>(kFloat32, kNumber, both, 4096), 120);
}

TEST(of_several_values_that_cannot_be_written_the_first_one_is_named) {
  Pool pool(4);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> values(20'000, 0.1f);
    for (const size_t at : {3000, 3001, 9000, 15'000, 19'999}) values[at] = std::nanf("");
    const auto encoding = std::make_shared<Encoding>(
        TextPlan(fixed({"", ""}), {row_of(RowType::kFloat32, RowRule::kNumber, values)}, 1000));
    const Blocks blocks(encoding->plan());
    const std::optional<Error> error = finish(encoding, pool, blocks);
    EXPECT(error && error->code() == "ERR_VALUE");
    EXPECT_EQUAL(test::fact(*error, "position", -1.0), 3000);
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

TEST(values_that_grow_after_the_plan_are_refused) {
  using enum RowType;
  using enum RowRule;
  const auto grown = [](RowType type, RowRule rule, auto values, auto value) {
    Encoding encoding({fixed({"", ""}), {row_of(type, rule, values)}, 4096});
    const Blocks blocks(encoding.plan());
    std::fill(values.begin() + 500, values.end(), value);
    try {
      encoding.run(blocks.spans);
    } catch (const Error& error) {
      return test::fact(error, "position", -1.0);
    }
    return -1.0;
  };
  EXPECT_EQUAL(grown(kInt32, kId, std::vector<int32_t>(1000, 7), 123'456'789), 500);
  EXPECT_EQUAL(grown(kInt64, kId, std::vector<int64_t>(1000, 7), int64_t{1} << 40), 500);
  EXPECT_EQUAL(grown(kInt64, kQuotedId, std::vector<int64_t>(1000, 7), int64_t{1} << 62), 500);
  EXPECT_EQUAL(grown(kFloat32, kWeight, std::vector<float>(1000, 1), 0.12345678f), 500);
  EXPECT_EQUAL(grown(kFloat64, kWeight, std::vector<double>(1000, 0), 0.12345678), 500);
}

TEST(an_encoding_that_is_cancelled_says_so_once_it_has_stopped) {
  Pool pool(2);
  const std::vector<float> values(200'000, 0.1f);
  const auto encoding = std::make_shared<Encoding>(
      TextPlan(fixed({"", ""}), {row_of(RowType::kFloat32, RowRule::kNumber, values)}, 1000));
  const Blocks blocks(encoding->plan());
  encoding->cancel();
  const std::optional<Error> error = finish(encoding, pool, blocks);
  EXPECT(error && error->code() == "ERR_ABORTED");
}

TEST(a_pool_can_end_while_it_works) {
  for (int round = 0; round < 20; ++round) {
    const std::vector<float> values(100'000, 0.1f);
    const auto encoding = std::make_shared<Encoding>(
        TextPlan(fixed({"", ""}), {row_of(RowType::kFloat32, RowRule::kNumber, values)}, 1000));
    const Blocks blocks(encoding->plan());
    std::atomic<int> done{0};
    Pool pool(2);
    encoding->start(pool, blocks.spans, [&](const std::optional<Error>&) { ++done; });
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
}

}  // namespace
}  // namespace tokengrad
