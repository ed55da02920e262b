// What is wrong with a result.
#pragma once

#include <string>

#include "core/error.h"

namespace tokengrad {

/// A text that is no JSON or is cut off is garbled, and may be better when it comes again; whatever
/// else came will come again.
enum class Fault { kWrong, kGarbled };

/// Throws `ERR_RESULT`, for a garbled text with the fact `reason`, which is then `garbled`.
[[noreturn]] void fail_result(const std::string& problem, Fault fault, Error::Facts facts = {});

}  // namespace tokengrad
