// Tests of values that cannot be written: the first one is named.
#include <cmath>
#include <limits>

#include "test/check.h"
#include "test/wire/texts.h"

namespace tokengrad::test {
namespace {

/// Row and position of the value that is refused.
template <typename T>
std::pair<double, double> refused(RowType type, RowRule rule, const std::vector<T>& values,
                                  size_t piece = 4096) {
  const std::vector<T> good(3, T(1));
  try {
    encode({"", "", ""}, {row_of(type, rule, good), row_of(type, rule, values)}, piece);
  } catch (const Error& error) {
    EXPECT_EQUAL(error.code(), std::string("ERR_VALUE"));
    return {fact(error, "row", -1.0), fact(error, "position", -1.0)};
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
    return fact(error, "position", -1.0);
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
    const auto encoding = std::make_unique<Encoding>(
        TextPlan(fixed({"", ""}), {row_of(RowType::kFloat32, RowRule::kNumber, values)}, 1000));
    const Blocks blocks(encoding->plan());
    const std::optional<Error> error = finish(encoding, pool, blocks);
    EXPECT(error && error->code() == "ERR_VALUE");
    EXPECT_EQUAL(fact(*error, "position", -1.0), 3000);
  }
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
      return fact(error, "position", -1.0);
    }
    return -1.0;
  };
  EXPECT_EQUAL(grown(kInt32, kId, std::vector<int32_t>(1000, 7), 123'456'789), 500);
  EXPECT_EQUAL(grown(kInt64, kId, std::vector<int64_t>(1000, 7), int64_t{1} << 40), 500);
  EXPECT_EQUAL(grown(kInt64, kQuotedId, std::vector<int64_t>(1000, 7), int64_t{1} << 62), 500);
  EXPECT_EQUAL(grown(kFloat32, kWeight, std::vector<float>(1000, 1), 0.12345678f), 500);
  EXPECT_EQUAL(grown(kFloat64, kWeight, std::vector<double>(1000, 0), 0.12345678), 500);
}

}  // namespace
}  // namespace tokengrad::test
