// Tests of reading results: rows go to their places, and everything else is kept.
#include "core/wire/result_reader.h"

#include "test/wire/results.h"

namespace tokengrad::test {
namespace {

TEST(rows_go_to_their_places_and_the_rest_is_kept) {
  const std::string text =
      result_of(R"([{"data":[0,-1.5,-2]},{"data":[0.0]},{"data":[-1e-3,0,0,-4]}])");
  const Read full = read_all(text);
  EXPECT_EQUAL(full.fault, "");
  EXPECT_EQUAL(full.rows, 3u);
  EXPECT((full.values == std::vector<float>{0, -1.5, -2, 0, -1e-3f, 0, 0, -4}));
  EXPECT_EQUAL(full.rest, result_of(R"([{"data":[]}])"));
  Expected packed;
  packed.packed = true;
  EXPECT((read_all(text, packed).values == std::vector<float>{-1.5, -2, -1e-3f, -4}));
}

TEST(samples_that_are_left_alike_are_given_once) {
  const auto rest = [](const std::string& outputs) { return read_all(result_of(outputs)).rest; };
  EXPECT_EQUAL(rest(R"([{"data":[1,2,3], "n":1}, {"data":[4], "n":1}, {"data":[1,2,3,4],"n":2}])"),
               result_of(R"([{"data":[], "n":1}, {"data":[], "n":1}, {"data":[],"n":2}])"));
  EXPECT_EQUAL(rest(R"([{"data":[1,2,3]} ,{"data":[4]} ,{"data":[1,2,3,4]} ])"),
               result_of(R"([{"data":[]} ])"));
  EXPECT_EQUAL(rest(R"([{"data":[1,2,3]},{"data":[4]},{"data":[1,2,3,4],"a":[[],[]]}])"),
               result_of(R"([{"data":[]},{"data":[],"a":[[],[]]}])"));
  // What is no JSON must not become some.
  for (const std::string outputs :
       {"[,]", "[ , ]", "[{},,{}]", "[{},]", "[{} , ]", "[\"a\",\"a\",,]"}) {
    const std::string left = rest(outputs);
    EXPECT(left.find(",,") != std::string::npos || left.find("[,") != std::string::npos ||
           left.find("[ ,") != std::string::npos || left.find(",]") != std::string::npos ||
           left.find(", ]") != std::string::npos);
  }
}

TEST(white_space_order_escapes_and_unknown_fields_do_not_matter) {
  const std::string text =
      " {\n\t\"x\\\"],\" : [ {} , [ [ ] , \"]}\\\\\" ] , null ],\r\n \"out\\u0070ut\" : { "
      "\"outputs\" : [ "
      "{ \"d\\u0061ta\" : [ 0 , -1.5 ,\n-2 ] , \"data2\":[1,2] , \"shape\":[3]} , {\"data\":[ 7 ]} "
      ","
      "{\"inner\":{\"data\":[\"no\"]},\"data\":[1,2,3,4]} ] , \"more\":[{\"data\":[9]}] } ,"
      "\"outputs\":[{\"data\":true}],\"data\":[null] } \n";
  const Read got = read_all(text);
  EXPECT_EQUAL(got.fault, "");
  EXPECT((got.values == std::vector<float>{0, -1.5, -2, 7, 1, 2, 3, 4}));
  EXPECT(got.rest.find("[\"no\"]") != std::string::npos);
  EXPECT(got.rest.find("[ 7") == std::string::npos);
}

TEST(texts_without_rows_are_the_rest) {
  for (const std::string text :
       {"{}", "[]", "null", "12", "\"a\\\"b\"", "", "  ", R"({"output":null})",
        R"({"output":{"outputs":[]}})", R"({"output":[{"outputs":[{"data":[1]}]}]})"}) {
    const Read got = read_all(text);
    EXPECT_EQUAL(got.fault, "");
    EXPECT_EQUAL(got.rest, text);
    EXPECT_EQUAL(got.rows, 0u);
  }
}

TEST(null_stands_for_zero_where_a_position_is_not_trained) {
  const Read got =
      read_all(result_of(R"([{"data":[null,1,2]},{"data":[1e99]},{"data":[1,null,-1e400,4]}])"));
  EXPECT((got.values == std::vector<float>{0, 1, 2, 0, 1, 0, 0, 4}));
}

TEST(a_spec_whose_parts_do_not_fit_is_refused) {
  std::vector<float> out(8);
  const auto made = [&](Expected expected) { ResultRows rows(expected.spec(out)); };
  EXPECT_CODE("", made({}));
  EXPECT_CODE("ERR_REQUEST", made({.run_counts = {1, 0}}));
  EXPECT_CODE("ERR_REQUEST", made({.run_counts = {1, 0, 1}}));
  EXPECT_CODE("ERR_REQUEST", made({.run_counts = {1, 0, 3}}));
  EXPECT_CODE("ERR_REQUEST", made({.runs = {1, 3, 0, 1, 3, 1}}));
  EXPECT_CODE("ERR_REQUEST", made({.runs = {1, 2, 3, 1, 0, 1}}));
  EXPECT_CODE("ERR_REQUEST", made({.runs = {1, 2, 0, 0, 3, 1}}));
  EXPECT_CODE("ERR_REQUEST", made({.runs = {1, 2, 0, 1, 3, 0xffffffff}}));
  EXPECT_CODE("ERR_REQUEST", made({.lengths = {3, 1, 5}}));
  EXPECT_CODE("ERR_REQUEST", made({.packed = true}));
  const Expected good;
  for (const RowPath& path :
       {RowPath{}, RowPath{"a"}, RowPath{"*", "*"}, RowPath{"*", std::string(41, 'a')}}) {
    EXPECT_CODE("ERR_REQUEST", ResultReader(path, good.spec(out), kLimits));
  }
}

}  // namespace
}  // namespace tokengrad::test
