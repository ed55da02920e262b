// Tests of the texts of rows, of every type, with and without runs.
#include "core/wire/row_text.h"

#include <bit>
#include <limits>
#include <numeric>

#include "test/check.h"
#include "test/wire/texts.h"

namespace tokengrad::test {
namespace {

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

}  // namespace
}  // namespace tokengrad::test
