// A test harness of one page: TEST(name) { EXPECT(...); }.
#pragma once

#include <cmath>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"

namespace tokengrad::test {

struct Test {
  std::string name;
  std::function<void()> body;
};

inline std::vector<Test>& tests() {
  static std::vector<Test> all;
  return all;
}

struct Register {
  Register(std::string name, std::function<void()> body) {
    tests().push_back({std::move(name), std::move(body)});
  }
};

/// Ends the test that is running.
struct Failure {
  std::string message;
};

[[noreturn]] inline void fail(const char* file, int line, const std::string& message) {
  throw Failure{std::string(file) + ":" + std::to_string(line) + ": " + message};
}

template <typename A, typename B>
void check_equal(const char* file, int line, const char* text, const A& got, const B& expected) {
  if (got == expected) return;
  std::ostringstream message;
  message << text << ": expected " << expected << ", got " << got;
  fail(file, line, message.str());
}

/// The code of the `Error` that `body` throws; an empty string if it throws none.
inline std::string code_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.code();
  }
  return "";
}

/// A fact of an error, or the default if there is no such fact.
template <typename T>
T fact(const Error& error, const std::string& name, T otherwise) {
  for (const auto& [key, value] : error.facts()) {
    if (key == name) return std::get<T>(value);
  }
  return otherwise;
}

}  // namespace tokengrad::test

#define TEST(name)                                                              \
  static void test_##name();                                                    \
  static const tokengrad::test::Register registered_##name(#name, test_##name); \
  static void test_##name()
#define EXPECT(condition) \
  if (!(condition)) tokengrad::test::fail(__FILE__, __LINE__, "expected " #condition)
#define EXPECT_EQUAL(got, expected) \
  tokengrad::test::check_equal(__FILE__, __LINE__, #got, got, expected)
#define EXPECT_CODE(expected, ...)                                             \
  tokengrad::test::check_equal(__FILE__, __LINE__, #__VA_ARGS__,               \
                               tokengrad::test::code_of([&] { __VA_ARGS__; }), \
                               std::string(expected))
