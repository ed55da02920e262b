// The whole arrays of a run of the fused executor: coarse values, and what is kept of the tokens.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/fused/kernels.h"
#include "core/fused/plan.h"
#include "core/layout.h"
#include "core/request.h"

namespace tokengrad::fused {

class Values {
 public:
  Values(const Plan& plan, const Layout& layout, const Request& request, const Variant& variant);

  /// Values of a node of axis sample, group or batch; masks are 0 and 1.
  const double* coarse(size_t node) const { return coarse_[node]; }
  /// Values of a node of axis token that lies in memory.
  const float* tokens(size_t node) const { return tokens_[node]; }

  /// Where the values of a token node are to be kept.
  float* keep(size_t node);
  /// Where a partial's values, one per sample, are to be put.
  std::vector<double>& partial(size_t index) { return partials_[index]; }

  /// Computes a node from the values before it. Throws `ERR_GROUP_SIZE`, `ERR_INDEX` and
  /// `ERR_REQUEST`, see arrays.h.
  void compute(size_t node);

 private:
  double* make(size_t node);
  void compute_coarse(size_t node);
  void compute_tokens(size_t node);
  void elementwise(size_t node, double* out) const;
  void reduce(size_t node, double* out) const;
  void count(size_t node, double* out) const;
  void spread(size_t node, double* out) const;
  std::span<const double> span_of(size_t node) const;

  const Plan& plan_;
  const Layout& layout_;
  const Variant& variant_;
  std::vector<const double*> coarse_;
  std::vector<const float*> tokens_;
  std::vector<std::vector<double>> partials_;
  std::vector<std::unique_ptr<double[]>> doubles_;
  std::vector<std::unique_ptr<float[]>> floats_;
};

}  // namespace tokengrad::fused
