// What is wrong with a result.
#include "core/wire/result_fault.h"

#include <utility>

namespace tokengrad {

void fail_result(const std::string& problem, Fault fault, Error::Facts facts) {
  if (fault == Fault::kGarbled) facts.emplace_back("reason", "garbled");
  throw Error("ERR_RESULT", problem, std::move(facts));
}

}  // namespace tokengrad
