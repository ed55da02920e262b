// The `fused` executor: runs a program in a few passes over the tokens, on the CPU, in float32.
#pragma once

#include "core/error.h"
#include "core/executor.h"
#include "core/fused/kernels.h"
#include "core/fused/plan.h"
#include "core/layout.h"
#include "core/request.h"

namespace tokengrad::fused {

/// Runs on the calling thread and libtorch's intra-op threads. With the same C library, whose
/// functions coarse values are computed by, the result has the same bits whatever the number of
/// threads and the CPU; a sample's part of it, whatever other samples there are.
/// The request is of float32 precision and has passed `check_request`; `variant` is one of
/// `variants()`. Throws `ERR_GROUP_SIZE`, `ERR_INDEX`, `ERR_REQUEST` of ranks (see arrays.h),
/// `ERR_ABORTED`.
Computed run(const Plan& plan, const Layout& layout, const Request& request,
             const CancelFlag& cancel, const Variant& variant);

}  // namespace tokengrad::fused

namespace tokengrad {

/// The same with the fastest variant that this CPU can run.
Computed run_fused(const fused::Plan& plan, const Layout& layout, const Request& request,
                   const CancelFlag& cancel);

}  // namespace tokengrad
