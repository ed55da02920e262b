// Tests of reductions over ragged and empty segments: values, gradients, and the same on every
// path.
#include "core/segments.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "test/check.h"

namespace tokengrad {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

SegmentsPtr segments_of(std::vector<int64_t> offsets) {
  return c10::make_intrusive<Segments>(std::move(offsets), at::kCPU);
}

/// Ragged, with empty segments at the start, in the middle and at the end.
SegmentsPtr ragged() { return segments_of({0, 0, 1, 4, 4, 21, 60, 60}); }

using Reduction = at::Tensor (*)(const at::Tensor&, const SegmentsPtr&);

/// d sum(upstream * reduction(x)) / d x
at::Tensor gradient(Reduction reduction, const at::Tensor& x, const SegmentsPtr& segments,
                    const at::Tensor& upstream) {
  const at::Tensor variable = x.detach().clone().set_requires_grad(true);
  const at::Tensor loss = reduction(variable, segments).mul(upstream).sum();
  return torch::autograd::grad({loss}, {variable})[0];
}

/// Compares with libtorch's own reduction of each segment, one at a time.
void compare(Reduction reduction, at::Tensor (*one)(const at::Tensor&), double of_empty,
             at::ScalarType dtype, double tolerance) {
  const SegmentsPtr segments = ragged();
  const at::Tensor x = at::randn({segments->elements()}, at::kDouble).to(dtype);
  const at::Tensor upstream = at::randn({segments->count()}, at::kDouble);
  const at::Tensor values = reduction(x, segments);
  EXPECT(values.scalar_type() == at::kDouble);
  const at::Tensor gradients = gradient(reduction, x, segments, upstream);
  EXPECT(gradients.scalar_type() == dtype);
  for (int64_t s = 0; s < segments->count(); ++s) {
    const int64_t begin = segments->offsets()[s];
    const int64_t size = segments->offsets()[s + 1] - begin;
    if (size == 0) {
      EXPECT_EQUAL(values[s].item<double>(), of_empty);
      continue;
    }
    const at::Tensor part =
        x.narrow(0, begin, size).to(at::kDouble).detach().clone().set_requires_grad(true);
    const at::Tensor expected = one(part);
    EXPECT(values[s].sub(expected).abs().item<double>() <= tolerance);
    const at::Tensor slope = torch::autograd::grad({expected}, {part})[0].mul(upstream[s]);
    EXPECT(gradients.narrow(0, begin, size).sub(slope).abs().max().item<double>() <= tolerance);
  }
}

TEST(segments_reduce_as_libtorch_does_one_by_one) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const double tolerance = dtype == at::kFloat ? 2e-6 : 1e-14;
    compare(segment_sum, [](const at::Tensor& x) { return x.sum(); }, 0, dtype, tolerance);
    compare(
        segment_max, [](const at::Tensor& x) { return x.amax(); }, -kInfinity, dtype, tolerance);
    compare(segment_min, [](const at::Tensor& x) { return x.amin(); }, kInfinity, dtype, tolerance);
  }
}

TEST(segments_ties_share_the_gradient_equally) {
  const SegmentsPtr segments = segments_of({0, 4, 5});
  const at::Tensor x = at::tensor({2.0, 1.0, 2.0, 2.0, 7.0});
  const at::Tensor upstream = at::tensor({3.0, 5.0});
  EXPECT(gradient(segment_max, x, segments, upstream).equal(at::tensor({1.0, 0.0, 1.0, 1.0, 5.0})));
  EXPECT(gradient(segment_min, x.neg(), segments, upstream)
             .equal(at::tensor({1.0, 0.0, 1.0, 1.0, 5.0})));
}

TEST(segments_of_float32_are_summed_in_float64) {
  // In float32, 1 would be lost beside 1e8 again and again.
  const int64_t size = 100000;
  at::Tensor x = at::ones({size}, at::kFloat);
  x[0] = 1e8;
  const SegmentsPtr segments = segments_of({0, size});
  EXPECT_EQUAL(segment_sum(x, segments).item<double>(), 1e8 + size - 1);
  const at::Tensor spread_gradient = [&] {
    const at::Tensor scalar = at::ones({1}, at::kDouble).set_requires_grad(true);
    const at::Tensor loss = segment_spread(scalar, segments, at::kFloat).mul(x).sum();
    return torch::autograd::grad({loss}, {scalar})[0];
  }();
  EXPECT_EQUAL(spread_gradient.item<double>(), 1e8 + size - 1);
}

TEST(segments_nan_is_not_lost) {
  const SegmentsPtr segments = segments_of({0, 3});
  const at::Tensor x = at::tensor({1.0, std::nan(""), 2.0});
  for (const Reduction reduction : {segment_sum, segment_max, segment_min}) {
    EXPECT(std::isnan(reduction(x, segments).item<double>()));
  }
}

TEST(segments_spread_and_sum_are_transposes) {
  const SegmentsPtr segments = ragged();
  const at::Tensor x = at::randn({segments->count()}, at::kDouble).set_requires_grad(true);
  const at::Tensor weights = at::randn({segments->elements()}, at::kDouble);
  const at::Tensor spread = segment_spread(x, segments, at::kDouble);
  EXPECT(spread.equal(x.index_select(0, segments->ids())));
  const at::Tensor slope = torch::autograd::grad({spread.mul(weights).sum()}, {x})[0];
  EXPECT(slope.equal(segment_sum(weights, segments)));
}

TEST(segments_take_masks) {
  const SegmentsPtr segments = segments_of({0, 3, 3, 5});
  const at::Tensor mask = at::tensor({1, 0, 1, 1, 1}).to(at::kBool);
  EXPECT(segment_sum(mask, segments).equal(at::tensor({2.0, 0.0, 2.0})));
  EXPECT(segment_spread(at::tensor({1, 1, 0}).to(at::kBool), segments, at::kBool)
             .equal(at::tensor({1, 1, 1, 0, 0}).to(at::kBool)));
}

TEST(segments_on_the_cpu_agree_with_the_portable_path) {
  const SegmentsPtr segments = ragged();
  const at::Tensor x = at::randn({segments->elements()}, at::kFloat);
  EXPECT(at::allclose(segment_sum(x, segments), portable::sum(x, *segments), 1e-14, 1e-14));
  EXPECT(segment_max(x, segments).equal(portable::max(x, *segments)));
  EXPECT(segment_min(x, segments).equal(portable::min(x, *segments)));
  const at::Tensor few = at::randn({segments->count()}, at::kDouble);
  EXPECT(segment_spread(few, segments, at::kFloat)
             .equal(portable::spread(few, *segments, at::kFloat)));
  const at::Tensor mask = x.gt(0);
  EXPECT(segment_sum(mask, segments).equal(portable::sum(mask, *segments)));
  EXPECT(segment_spread(few.gt(0), segments, at::kBool)
             .equal(portable::spread(few.gt(0), *segments, at::kBool)));
}

TEST(segments_give_the_same_bits_on_any_number_of_threads) {
  std::vector<int64_t> offsets{0};
  for (int s = 0; s < 300; ++s) offsets.push_back(offsets.back() + (s * 7919) % 3001);
  const SegmentsPtr segments = segments_of(offsets);
  const at::Tensor x = at::randn({segments->elements()}, at::kFloat);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor sums = segment_sum(x, segments);
  const at::Tensor spread = segment_spread(sums, segments, at::kFloat);
  for (const int threads : {2, 3, 7}) {
    at::set_num_threads(threads);
    EXPECT(segment_sum(x, segments).equal(sums));
    EXPECT(segment_spread(sums, segments, at::kFloat).equal(spread));
  }
  at::set_num_threads(before);
}

TEST(segments_find_the_segment_of_an_element) {
  const SegmentsPtr segments = segments_of({0, 0, 2, 2, 3, 3});
  EXPECT_EQUAL(segments->segment_of(0), 1);
  EXPECT_EQUAL(segments->segment_of(1), 1);
  EXPECT_EQUAL(segments->segment_of(2), 3);
}

}  // namespace
}  // namespace tokengrad
