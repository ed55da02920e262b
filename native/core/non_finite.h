// Explains why the result of a run is not finite.
#pragma once

#include "core/error.h"
#include "core/executor.h"

namespace tokengrad {

/// The error for a run whose loss or gradient is not finite: `ERR_NON_FINITE`. Where it began (see
/// `Culprits`) is found by computing with libtorch, whichever executor ran: once up to the result,
/// to find the culprits, and from the start again up to the first of them, to read what is there.
/// Facts:
/// - `node`, `value`, the place as far as there is one (`sample`, `position`, `group`) and the
///   `operands` of an elementwise op: the first culprit. Without `node` there is no culprit, and
///   `value` is the loss, or the gradient at the place before it was stored;
/// - `samples`: all that culprits belong to or, without any, all with a gradient that is not finite
///   once stored;
/// - `shared`, of 1: a value of the whole batch, the loss at least, is not finite by itself;
/// - `loss`: what the loss came to.
Error explain(const Program& program, const Layout& layout, const Request& request,
              at::Device device, const Computed& computed, const CancelFlag& cancel);

}  // namespace tokengrad
