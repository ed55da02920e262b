// Tests of results that are wrong: each fault is named, and there are limits.
#include "test/wire/results.h"

namespace tokengrad::test {
namespace {

TEST(faults_name_sample_and_position) {
  const std::string head = R"([{"data":[0,1,2]},{"data":[0]},)";
  const auto check = [&](const std::string& outputs, double sample, double position,
                         bool garbled = false) {
    const Read got = read_all(result_of(outputs));
    if (got.fault.empty() || got.sample != sample || got.position != position ||
        got.garbled != garbled) {
      fail(__FILE__, __LINE__, outputs + ": " + got.fault);
    }
  };
  check(head + R"({"data":[1,2,3,null]}])", 2, 3);
  check(head + R"({"data":[1,2,3,1e39]}])", 2, 3);
  check(head + R"({"data":[1,2,3,"NaN"]}])", 2, 3);
  check(head + R"({"data":[1,"2",3,4]}])", 2, 1);
  check(head + R"({"data":[1,NaN,3,4]}])", 2, 1);
  check(head + R"({"data":[1,[2],3,4]}])", 2, 1);
  check(head + R"({"data":[1,{},3,4]}])", 2, 1);
  check(head + R"({"data":[1,-Infinity,3,4]}])", 2, 1);
  check(head + R"({"data":[1,true,3,4]}])", 2, 1);
  check(head + R"({"data":[1,02,3,4]}])", 2, 1, true);
  check(head + R"({"data":[1,-,3,4]}])", 2, 1, true);
  check(head + R"({"data":[1,?,3,4]}])", 2, 1, true);
  check(head + R"({"data":[1,,3,4]}])", 2, 1, true);
  check(head + R"({"data":[1,2,3,]}])", 2, 3, true);
  check(head + R"({"data":[1 2,3,4]}])", 2, 1, true);
  check(head + R"({"data":[1,2,3}}])", 2, 2, true);
  check(head + R"({"data":[1,2,3]}])", 2, -1);
  check(head + R"({"data":[1,2,3,4,5]}])", 2, -1);
  check(head + R"({"data":[1,?,3,4,5,6]}])", 2, 1, true);
  check(head + R"({"data":[]}])", 2, -1);
  check(head + R"({"data":null}])", 2, -1);
  check(head + R"({"data":{}}])", 2, -1);
  check(head + R"({"data":"text"}])", 2, -1);
  check(head + R"({"data":5}])", 2, -1);
  check(head + R"({"data":[1,2,3,4],"data":[1,2,3,4]}])", 2, -1);
  check(head + R"({"other":[]}])", 2, -1);
  check(R"([{"data":[0,1,2]},{"data":[0]}])", 2, -1);
  check(R"([{},{"data":[0]},{"data":[1,2,3,4]}])", 0, -1);
  check(head + R"({"data":[1,2,3,4]},{"data":[1]}])", -1, -1);
  check(head + "{\"data\":[" + std::string(1100, '1') + "]}]", 2, 0);
}

TEST(truncated_texts_are_refused_wherever_they_end) {
  const std::string text = result_of(R"([{"data":[0,-1.5,-2]},{"data":[0]},{"data":[1,2,3,4]}])");
  EXPECT_EQUAL(read(text, 7).fault, "");
  for (size_t length = 1; length < text.size(); ++length) {
    const Read got = read_all(text.substr(0, length));
    EXPECT(got.garbled);
    EXPECT(got.fault.ends_with(", after " + std::to_string(length) + " bytes"));
  }
}

TEST(sizes_and_depths_have_limits) {
  const std::string text = result_of(R"([{"data":[0,-1.5,-2]},{"data":[0]},{"data":[1,2,3,4]}])");
  const std::string rest = read(text, 9).rest;
  const auto fault = [&](const ReadLimits& limits) {
    const Read got = read_all(text, {}, limits);
    EXPECT(!got.garbled);
    return got.fault;
  };
  EXPECT_EQUAL(fault({rest.size(), 4}), "");
  EXPECT_EQUAL(fault({rest.size() - 1, 4}), "expected at most " + std::to_string(rest.size() - 1) +
                                                " bytes beside the rows, got more");
  EXPECT_EQUAL(fault({rest.size(), 3}), "expected at most 3 levels, got more");
  EXPECT(!read(std::string(100'000, '['), 1000).fault.empty());
}

TEST(what_is_not_json_is_refused_or_left_for_the_parser) {
  for (const std::string text : {"<html>\"", "}", "{\"a\":[1}", "{}}"}) {
    EXPECT(read_all(text).garbled);
  }
  // Nothing of these is lost, so that a parser sees what is wrong with them.
  for (const std::string text : {"{\"a\" 1}", "{} {}", "[1 2]", "{,}", "nul"}) {
    EXPECT_EQUAL(read_all(text).rest, text);
  }
}

}  // namespace
}  // namespace tokengrad::test
