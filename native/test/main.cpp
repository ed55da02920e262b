// Runs all tests, or those whose name holds the first argument, and exits with 1 if one failed.
#include "test/check.h"

int main(int argc, char** argv) {
  using namespace tokengrad;
  const std::string filter = argc > 1 ? argv[1] : "";
  int run = 0;
  int failed = 0;
  for (const test::Test& test : test::tests()) {
    if (test.name.find(filter) == std::string::npos) continue;
    ++run;
    std::string problem;
    try {
      test.body();
    } catch (const test::Failure& failure) {
      problem = failure.message;
    } catch (const std::exception& error) {
      problem = std::string("threw: ") + error.what();
    }
    if (problem.empty()) continue;
    ++failed;
    std::cerr << "FAILED " << test.name << "\n  " << problem << "\n";
  }
  std::cout << run - failed << " of " << run << " tests passed\n";
  return failed == 0 && run > 0 ? 0 : 1;
}
