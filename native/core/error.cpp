// Turns any exception, libtorch's too, into the core's own error.
#include "core/error.h"

#include <c10/util/Exception.h>

namespace tokengrad {

Error current_error() {
  try {
    throw;
  } catch (const c10::Error& error) {
    return Error("ERR_NATIVE", error.what_without_backtrace());
  } catch (...) {
    return standard_error();
  }
}

}  // namespace tokengrad
