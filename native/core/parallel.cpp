// Splits a loop over libtorch's own intra-op threads.
#include "core/parallel.h"

#include <ATen/TensorIterator.h>
#include <ATen/ops/arange.h>

#include <algorithm>

namespace tokengrad {
namespace {

/// Elements below which another thread costs more than it brings.
constexpr int64_t kGrain = 32768;

}  // namespace

void parallel_for(int64_t count, int64_t work, c10::function_ref<void(int64_t, int64_t)> body) {
  const int64_t grain = work > 0 ? std::max<int64_t>(1, kGrain * count / work) : count;
  if (count <= grain) {
    if (count > 0) body(0, count);
    return;
  }
  // A tensor iterator over the indices does the splitting: `at::parallel_for` is a template that
  // needs this code to be compiled and linked with the very OpenMP that libtorch carries.
  at::Tensor indices = at::arange(count, at::kLong);
  at::TensorIterator iterator = at::TensorIterator::nullary_op(indices);
  iterator.for_each(
      [&body](char** data, const int64_t*, int64_t size0, int64_t size1) {
        const int64_t begin = *reinterpret_cast<const int64_t*>(data[0]);
        body(begin, begin + size0 * size1);
      },
      grain);
}

}  // namespace tokengrad
