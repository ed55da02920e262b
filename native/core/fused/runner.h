// Runs the passes of a plan, block by block, on several threads.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "core/error.h"
#include "core/fused/kernels.h"
#include "core/fused/pass.h"
#include "core/fused/units.h"
#include "core/fused/values.h"
#include "core/request.h"
#include "core/rows.h"

namespace tokengrad::fused {

/// A token of the gradient whose value, once stored, is not finite; the value is that before.
struct Special {
  int64_t token;
  double value;
};

class Runner {
 public:
  Runner(const Plan& plan, const Layout& layout, const Request& request, const CancelFlag& cancel,
         const Variant& variant, Values& values);

  /// Computes the pass's partials and whatever it keeps and writes. Throws `ERR_ABORTED`.
  void run(const Pass& pass);

  /// The first of the gradients written that is not finite as it is stored.
  const std::optional<Special>& special() const { return special_; }

 private:
  class Thread;

  void report(int64_t token, float value);

  const Plan& plan_;
  const Layout& layout_;
  const Request& request_;
  const CancelFlag& cancel_;
  const Variant& variant_;
  Values& values_;
  const std::vector<Unit> units_;
  const RowWriter<float> writer_;
  /// Of each partial of the plan, its value in each unit.
  std::vector<std::vector<double>> results_;
  /// Where the ops that need all tokens at once find them.
  std::vector<float*> kept_;
  std::mutex mutex_;
  std::optional<Special> special_;
};

}  // namespace tokengrad::fused
