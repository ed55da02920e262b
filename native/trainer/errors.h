// The trainer's own reasons to fail, besides those of libtorch.
#pragma once

#include <functional>
#include <string>

#include "core/error.h"

namespace tokengrad::trainer {

// Long work calls this now and then; it throws when the work is to stop.
using Check = std::function<void()>;

// An operation's input does not fit the model or the session.
inline Error input_error(const std::string& message) { return Error("ERR_INPUT", message); }

// A loss, a log-probability or a gradient is infinite or not a number.
inline Error non_finite_error(const std::string& message) {
  return Error("ERR_NON_FINITE", message);
}

}  // namespace tokengrad::trainer
