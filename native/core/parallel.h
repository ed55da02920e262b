// Splits a loop over libtorch's own intra-op threads.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace tokengrad {

/// Calls `body(begin, end)` for ranges that cover [0, count). `work` is the number of elements
/// behind all of it: small loops stay on the calling thread. What `body` throws, on whichever
/// thread, is thrown here once all threads have ended, the first of it if there are several; ranges
/// that had not begun may be left out. `body` must not touch tensors.
void parallel_for(int64_t count, int64_t work, c10::function_ref<void(int64_t, int64_t)> body);

}  // namespace tokengrad
