// Runs programs: by the executor that is asked for, and with an explanation where the result is not
// finite.
#include "core/executor.h"

#include <cmath>

#include "core/autograd_executor.h"
#include "core/fused/run.h"
#include "core/non_finite.h"
#include "core/torch_executor.h"

namespace tokengrad {
namespace {

bool is_fused(const fused::Plan& plan, const Request& request, at::Device device) {
  return device.is_cpu() && request.precision == at::kFloat && plan.lacking().empty();
}

Computed run(const Compiled& compiled, const Layout& layout, const Request& request,
             Executor executor, at::Device device, const CancelFlag& cancel) {
  if (executor == Executor::kAutograd) {
    return run_autograd(compiled.program, layout, request, device, cancel);
  }
  if (executor == Executor::kFused && is_fused(compiled.plan, request, device))
    return run_fused(compiled.plan, layout, request, cancel);
  return run_torch(compiled.program, layout, request, device, cancel);
}

}  // namespace

RunResult run_program(const Compiled& compiled, const Request& request, Executor executor,
                      at::Device device, const CancelFlag& cancel) {
  const Layout layout(request.layout, device);
  check_request(compiled.program, layout, request);
  Computed computed = run(compiled, layout, request, executor, device, cancel);
  if (!std::isfinite(computed.result.loss) || computed.non_finite_token) {
    throw explain(compiled.program, layout, request, device, computed, cancel);
  }
  return std::move(computed.result);
}

}  // namespace tokengrad
