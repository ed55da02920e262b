// The ops of `arrays.h`, and `scale` and `unscale`, on tensors. On the CPU without gradients they
// are plain loops; elsewhere they are written with ATen's ops, which autograd can differentiate.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/arrays.h"
#include "core/segments.h"

namespace tokengrad {

/// `x * y`, and 0 wherever x is 0, whatever y is.
at::Tensor scale(const at::Tensor& x, const at::Tensor& y);
/// `x / y`, and 0 wherever x is 0, whatever y is.
at::Tensor unscale(const at::Tensor& x, const at::Tensor& y);

/// See `arrays.h`. The running sums are kept in float64 and rounded to the type of `values`.
at::Tensor cumsum(const at::Tensor& values, const Segments& segments, const CumsumOptions& options);
at::Tensor shift(const at::Tensor& values, const Segments& segments, int64_t offset);

/// `index` is float64 and checked: `ERR_INDEX`. No gradient flows through it.
at::Tensor gather(const at::Tensor& values, const at::Tensor& index);
/// The result has `size` elements.
at::Tensor scatter_add(const at::Tensor& values, const at::Tensor& index, int64_t size);

/// No gradient flows through these.
at::Tensor argsort(const at::Tensor& values, const Segments& segments);
at::Tensor rank(const at::Tensor& values, const Segments& segments);

/// The parts that have a loop of their own on the CPU, written with ATen's ops.
namespace portable {
at::Tensor scale(const at::Tensor& x, const at::Tensor& y);
at::Tensor unscale(const at::Tensor& x, const at::Tensor& y);
/// In log2(longest segment) steps.
at::Tensor cumsum(const at::Tensor& values, const Segments& segments, const CumsumOptions& options);
at::Tensor shift(const at::Tensor& values, const Segments& segments, int64_t offset);
at::Tensor gather(const at::Tensor& values, const at::Tensor& index);
at::Tensor scatter_add(const at::Tensor& values, const at::Tensor& index, int64_t size);
}  // namespace portable

}  // namespace tokengrad
