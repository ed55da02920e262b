// Runs programs: by the executor that is asked for, and with an explanation where the result is not
// finite.
#include "core/executor.h"

#include <cmath>
#include <string>

#include "core/autograd_executor.h"
#include "core/fused/run.h"
#include "core/non_finite.h"
#include "core/torch_executor.h"

namespace tokengrad {
namespace {

/// Throws `ERR_REQUEST` for what the fused executor cannot run.
void check_fused(const fused::Plan& plan, const Request& request, at::Device device) {
  const auto refuse = [](const std::string& problem) {
    throw Error("ERR_REQUEST", "executor: fused " + problem);
  };
  if (!device.is_cpu()) refuse("computes on the CPU, got " + device.str());
  if (request.precision != at::kFloat) {
    refuse(std::string("computes in Float, got a precision of ") +
           c10::toString(request.precision));
  }
  if (plan.lacking().empty()) return;
  std::string names;
  for (const std::string& name : plan.lacking()) names += (names.empty() ? "" : ", ") + name;
  refuse("lacks " + names);
}

Computed run(const Compiled& compiled, const Layout& layout, const Request& request,
             Executor executor, at::Device device, const CancelFlag& cancel) {
  switch (executor) {
    case Executor::kFused:
      check_fused(compiled.plan, request, device);
      return run_fused(compiled.plan, layout, request, cancel);
    case Executor::kAutograd:
      return run_autograd(compiled.program, layout, request, device, cancel);
    case Executor::kTorch:
      break;
  }
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
