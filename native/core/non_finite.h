// Finds out where a value that is not finite came from.
#pragma once

#include <optional>

#include "core/error.h"
#include "core/evaluation.h"

namespace tokengrad {

/// Computes the program once more, looking for the first node in program order with a value that is
/// not finite although all it was computed from is. With a `token`, only values that this token
/// takes part in are looked at.
///
/// The error is `ERR_NON_FINITE` with the facts `node`, `value`, the place as far as there is one
/// (`sample`, `position`, `group`) and `operands` of an elementwise op; nothing if there is no such
/// node.
std::optional<Error> find_source(const Program& program, const Layout& layout,
                                 const Request& request, at::Device device,
                                 std::optional<int64_t> token, const CancelFlag& cancel);

/// The gradient of a token is not finite, or is not once stored as the request's dtype:
/// `ERR_NON_FINITE` with `sample`, `position` and `value` (before it was stored).
Error gradient_error(const Layout& layout, int64_t token, double value, Dtype dtype);

}  // namespace tokengrad
