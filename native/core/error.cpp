// Turns any exception into the core's own error.
#include "core/error.h"

#include <c10/util/Exception.h>

namespace tokengrad {

Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const c10::Error& error) {
    return Error("ERR_NATIVE", error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return Error("ERR_NATIVE", "out of memory");
  } catch (const std::exception& error) {
    return Error("ERR_NATIVE", error.what());
  } catch (...) {
    return Error("ERR_NATIVE", "internal: an exception of an unknown type");
  }
}

}  // namespace tokengrad
