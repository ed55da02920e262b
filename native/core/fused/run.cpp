// The `fused` executor: runs a program in a few passes over the tokens, on the CPU, in float32.
#include "core/fused/run.h"

#include <algorithm>

#include "core/fused/runner.h"
#include "core/fused/values.h"

namespace tokengrad::fused {

Computed run(const Plan& plan, const Layout& layout, const Request& request,
             const CancelFlag& cancel, const Variant& variant) {
  Values values(plan, layout, request, variant);
  Runner runner(plan, layout, request, cancel, variant, values);
  for (size_t pass = 0; pass <= plan.passes().size(); ++pass) {
    for (const size_t node : plan.schedule().before[pass]) {
      cancel.check();
      values.compute(node);
    }
    if (pass < plan.passes().size()) runner.run(plan.passes()[pass]);
  }

  const Roots& roots = plan.roots();
  Computed computed{{*values.coarse(roots.loss), {}}, std::nullopt, 0};
  for (const size_t metric : roots.metrics)
    computed.result.metrics.push_back(*values.coarse(metric));
  for (size_t i = 0; i < roots.outputs.size(); ++i) {
    if (plan.nodes()[roots.outputs[i]].axis == Axis::kToken) continue;
    std::copy_n(values.coarse(roots.outputs[i]), request.outputs[i].size(),
                request.outputs[i].begin());
  }
  if (runner.special()) {
    computed.non_finite_token = runner.special()->token;
    computed.non_finite_value = runner.special()->value;
  }
  return computed;
}

}  // namespace tokengrad::fused

namespace tokengrad {

Computed run_fused(const fused::Plan& plan, const Layout& layout, const Request& request,
                   const CancelFlag& cancel) {
  return fused::run(plan, layout, request, cancel, *fused::variants().front());
}

}  // namespace tokengrad
