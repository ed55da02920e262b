// Tests of reading results: any JSON, cut anywhere; faults are named.
#include "core/wire/result_reader.h"

#include <charconv>
#include <cmath>
#include <deque>
#include <future>
#include <random>

#include "core/error.h"
#include "core/wire/decimal_text.h"
#include "core/wire/reading.h"
#include "test/check.h"

namespace tokengrad {
namespace {

const RowPath kPath{"output", "outputs", "*", "data"};
constexpr ReadLimits kLimits{1 << 16, 16};

/// Rows of 3, 1 and 4 positions, trained 1 2 of the first and 0 and 3 of the third.
struct Expected {
  std::vector<uint32_t> lengths{3, 1, 4};
  std::vector<uint32_t> run_counts{1, 0, 2};
  std::vector<uint32_t> runs{1, 2, 0, 1, 3, 1};
  bool packed = false;

  RowsSpec spec(std::vector<float>& out) const { return {lengths, run_counts, runs, out, packed}; }
};

struct Read {
  std::vector<float> values;
  std::string rest;
  size_t rows = 0;
  /// What went wrong, and where.
  std::string fault;
  double sample = -1;
  double position = -1;
  bool garbled = false;

  bool operator==(const Read&) const = default;
};

/// Parts of a text, each in memory of its own size.
std::deque<std::vector<char>> parts_of(std::string_view text, size_t part) {
  std::deque<std::vector<char>> parts;
  for (; !text.empty(); text.remove_prefix(std::min(part, text.size()))) {
    const std::string_view bytes = text.substr(0, part);
    parts.emplace_back(bytes.begin(), bytes.end());
  }
  return parts;
}

/// Reads a text by one thread.
void read_here(ResultReader& reader, const std::deque<std::vector<char>>& parts) {
  for (const std::vector<char>& part : parts) reader.push({part.data(), part.size()});
  reader.finish();
}

/// Leaves even the shortest passages to other threads.
std::shared_ptr<Reading> read_on_pool(ResultReader reader,
                                      const std::deque<std::vector<char>>& parts) {
  static Pool pool(3);
  const auto reading = std::make_shared<Reading>(
      std::move(reader), ReadingSizes{.inline_bytes = 0, .passage_bytes = 1});
  for (const std::vector<char>& part : parts) reading->push(pool, {part.data(), part.size()});
  std::promise<std::optional<Error>> done;
  reading->finish([&](std::optional<Error> error) { done.set_value(std::move(error)); });
  if (const auto error = done.get_future().get()) throw Error(*error);
  EXPECT_EQUAL(reading->consumed(), parts.size());
  return reading;
}

/// Reads a text that comes in parts of `part` bytes.
Read read(const std::string& text, size_t part, const Expected& expected = {},
          const ReadLimits& limits = kLimits, bool on_pool = false) {
  Read result;
  result.values.assign(expected.packed ? 4 : 8, -99);
  ResultReader reader(kPath, expected.spec(result.values), limits);
  const auto parts = parts_of(text, part);
  const auto take = [&](const ResultReader& done) {
    result.rest = done.rest();
    result.rows = done.complete_rows();
  };
  try {
    if (on_pool) {
      take(read_on_pool(std::move(reader), parts)->result());
    } else {
      read_here(reader, parts);
      take(reader);
    }
  } catch (const Error& error) {
    EXPECT_EQUAL(error.code(), std::string("ERR_RESULT"));
    result.fault = error.what();
    result.sample = test::fact(error, "sample", -1.0);
    result.position = test::fact(error, "position", -1.0);
    result.garbled = test::fact(error, "reason", std::string()) == "garbled";
    // How far the values and the rest came is nobody's business then.
    result.values.clear();
  }
  return result;
}

/// Reads a text whole and in parts of every size, by one thread and by several: all must be the
/// same.
Read read_all(const std::string& text, const Expected& expected = {},
              const ReadLimits& limits = kLimits) {
  const Read whole = read(text, text.size() + 1, expected, limits);
  for (size_t part = 1; part <= text.size() + 1; ++part) {
    for (const bool on_pool : {false, true}) {
      const Read parts = read(text, part, expected, limits, on_pool);
      if (!(parts == whole)) {
        test::fail(__FILE__, __LINE__,
                   text + "\n  in parts of " + std::to_string(part) +
                       (on_pool ? " on a pool: " : ": ") + parts.fault +
                       "\n  whole: " + whole.fault);
      }
    }
  }
  return whole;
}

std::string result_of(const std::string& outputs) {
  return R"({"id":"x","output":{"loss":1.5,"outputs":)" + outputs + R"(},"status":"DONE"})";
}

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

TEST(faults_name_sample_and_position) {
  const std::string head = R"([{"data":[0,1,2]},{"data":[0]},)";
  const auto check = [&](const std::string& outputs, double sample, double position,
                         bool garbled = false) {
    const Read got = read_all(result_of(outputs));
    if (got.fault.empty() || got.sample != sample || got.position != position ||
        got.garbled != garbled) {
      test::fail(__FILE__, __LINE__, outputs + ": " + got.fault);
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

/// White space, mostly none.
std::string space(std::mt19937& random) {
  static const std::string all[] = {"", "", "", "", " ", "\n", "\t  ", "\r\n"};
  return all[random() % 8];
}

/// A value that has nothing to do with the rows.
std::string other(std::mt19937& random, int depth) {
  static const std::string scalars[] = {"null", "true",   "-1.5e3", "\"data\"",     "\"\\\\\"",
                                        "\"\"", "\"]}\"", "0",      "\"\\u00e9é\"", "\"a\\\"b\""};
  if (depth == 0 || random() % 3 == 0) return scalars[random() % 10];
  const bool object = random() % 2;
  std::string text(object ? "{" : "[");
  for (uint32_t i = random() % 4; i-- > 0;) {
    if (object) text += (random() % 2 ? "\"data\"" : "\"outputs\"") + space(random) + ":";
    text += space(random) + other(random, depth - 1) + space(random) + (i > 0 ? "," : "");
  }
  return text + (object ? "}" : "]");
}

std::string number_text(std::mt19937& random, float value) {
  char text[512];
  switch (random() % 4) {
    case 0:
      return {text, write_float32(value, text)};
    case 1:
      return {text, std::to_chars(text, text + sizeof(text), static_cast<double>(value)).ptr};
    case 2:
      return {
          text,
          std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific, 40).ptr};
    default:
      return {text,
              std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed, 60).ptr};
  }
}

TEST(random_results_are_read_alike_however_they_are_cut) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    Expected expected;
    expected.lengths.clear();
    expected.run_counts.assign(random() % 5 + 1, 1);
    expected.runs.clear();
    std::vector<float> values;
    std::string outputs = "[";
    for (size_t sample = 0; sample < expected.run_counts.size(); ++sample) {
      const uint32_t length = random() % 40 + 1;
      expected.lengths.push_back(length);
      expected.runs.insert(expected.runs.end(), {0, length});
      std::string row = "[";
      for (uint32_t i = 0; i < length; ++i) {
        values.push_back(
            std::ldexp(-static_cast<float>(random()), -32 - static_cast<int>(random() % 20)));
        row +=
            (i > 0 ? "," : "") + space(random) + number_text(random, values.back()) + space(random);
      }
      row += "]";
      std::vector<std::string> members{"\"data\"" + space(random) + ":" + space(random) + row};
      for (uint32_t i = random() % 3; i-- > 0;) {
        const std::string member = "\"other" + std::to_string(i) + "\":" + other(random, 3);
        members.insert(members.begin() + random() % (members.size() + 1), member);
      }
      outputs += (sample > 0 ? "," : "") + space(random) + "{";
      for (size_t i = 0; i < members.size(); ++i) outputs += (i > 0 ? "," : "") + members[i];
      outputs += "}";
    }
    const std::string text = "{\"a\":" + other(random, 4) +
                             ",\"output\":{\"b\":" + other(random, 3) + ",\"outputs\":" + outputs +
                             "]}}";
    std::vector<float> out(values.size());
    for (int cut = 0; cut < 20; ++cut) {
      std::fill(out.begin(), out.end(), 0);
      ResultReader reader(kPath, expected.spec(out), kLimits);
      std::deque<std::vector<char>> parts;
      for (size_t at = 0; at < text.size();) {
        const size_t part = cut < 2 ? text.size() : random() % (cut < 10 ? 20 : 400) + 1;
        const std::string bytes = text.substr(at, part);
        parts.emplace_back(bytes.begin(), bytes.end());
        at += part;
      }
      size_t rows = 0;
      if (cut % 2 == 0) {
        read_here(reader, parts);
        rows = reader.complete_rows();
      } else {
        rows = read_on_pool(std::move(reader), parts)->result().complete_rows();
      }
      EXPECT(out == values);
      EXPECT_EQUAL(rows, expected.lengths.size());
    }
  }
}

}  // namespace
}  // namespace tokengrad
