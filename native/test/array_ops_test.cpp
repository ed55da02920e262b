// Tests that the array ops written with ATen's ops agree with the plain loops, and that autograd
// differentiates them.
#include "core/array_ops.h"

#include <ATen/Parallel.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "test/check.h"

namespace tokengrad {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

SegmentsPtr ragged() {
  return c10::make_intrusive<Segments>(std::vector<int64_t>{0, 0, 1, 4, 4, 21, 60, 60}, at::kCPU);
}

at::Tensor variable(const at::Tensor& values) {
  return values.detach().clone().set_requires_grad(true);
}

/// d sum(upstream * result) / d x
at::Tensor gradient(const at::Tensor& result, const at::Tensor& upstream, const at::Tensor& x) {
  return torch::autograd::grad({result.mul(upstream).sum()}, {x})[0];
}

bool near(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  return a.scalar_type() == b.scalar_type() && at::allclose(a, b, tolerance, tolerance);
}

TEST(array_ops_scan_the_same_on_both_paths_and_transpose_in_the_gradient) {
  const SegmentsPtr segments = ragged();
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const double tolerance = dtype == at::kFloat ? 2e-6 : 1e-13;
    const at::Tensor x = at::randn({segments->elements()}, dtype);
    const at::Tensor upstream = at::randn({segments->elements()}, dtype);
    for (const double discount : {0.0, 0.5, 1.0, 1.25}) {
      for (const bool reverse : {false, true}) {
        for (const bool exclusive : {false, true}) {
          const CumsumOptions options{reverse, exclusive, discount};
          const at::Tensor sums = cumsum(x, *segments, options);
          EXPECT(near(portable::cumsum(x, *segments, options), sums, tolerance));
          const at::Tensor recorded = variable(x);
          const at::Tensor slope =
              gradient(cumsum(recorded, *segments, options), upstream, recorded);
          EXPECT(
              near(slope, cumsum(upstream, *segments, {!reverse, exclusive, discount}), tolerance));
        }
      }
    }
    for (const int64_t offset : {-100, -2, -1, 0, 1, 3, 17}) {
      const at::Tensor shifted = shift(x, *segments, offset);
      EXPECT(portable::shift(x, *segments, offset).equal(shifted));
      const at::Tensor recorded = variable(x);
      EXPECT(gradient(shift(recorded, *segments, offset), upstream, recorded)
                 .equal(shift(upstream, *segments, -offset)));
    }
  }
}

TEST(array_ops_give_the_same_bits_on_any_number_of_threads) {
  std::vector<int64_t> offsets{0};
  for (int s = 0; s < 300; ++s) offsets.push_back(offsets.back() + (s * 7919) % 3001);
  const auto segments = c10::make_intrusive<Segments>(offsets, at::kCPU);
  const at::Tensor x = at::randn({segments->elements()}, at::kFloat);
  const auto results = [&](int threads) {
    at::set_num_threads(threads);
    return std::vector{cumsum(x, *segments, {true, false, 0.9}), shift(x, *segments, 2),
                       scale(x, x), unscale(x, x)};
  };
  const int before = at::get_num_threads();
  const auto expected = results(1);
  for (const int threads : {2, 3, 7}) {
    const auto got = results(threads);
    for (size_t i = 0; i < got.size(); ++i) EXPECT(got[i].equal(expected[i]));
  }
  at::set_num_threads(before);
}

TEST(array_ops_gather_and_scatter_the_same_on_both_paths) {
  const at::Tensor x = at::randn({5}, at::kDouble);
  const at::Tensor index = at::tensor({4.0, 0.0, 4.0, 2.0});
  const at::Tensor few = at::randn({4}, at::kDouble);
  EXPECT(gather(x, index).equal(at::stack({x[4], x[0], x[4], x[2]})));
  EXPECT(portable::gather(x, index).equal(gather(x, index)));
  EXPECT(portable::scatter_add(few, index, 5).equal(scatter_add(few, index, 5)));
  const at::Tensor recorded = variable(x);
  EXPECT(gradient(gather(recorded, index), few, recorded).equal(scatter_add(few, index, 5)));
  const at::Tensor added = variable(few);
  EXPECT(gradient(scatter_add(added, index, 5), x, added).equal(gather(x, index)));
  for (const double wrong : {-1.0, 5.0, 0.5}) {
    const at::Tensor outside = at::tensor({wrong, 0.0, 0.0, 0.0});
    EXPECT_CODE("ERR_INDEX", gather(x, outside));
    EXPECT_CODE("ERR_INDEX", gather(recorded, outside));
    EXPECT_CODE("ERR_INDEX", scatter_add(few, outside, 5));
    EXPECT_CODE("ERR_INDEX", scatter_add(added, outside, 5));
  }
}

TEST(array_ops_scale_the_same_on_both_paths_and_cut_off_what_is_not_finite) {
  const at::Tensor x = at::tensor({0.0, 0.0, 0.0, 0.0, 2.0, -3.0, 0.5});
  const at::Tensor y = at::tensor({kInfinity, std::nan(""), 0.0, 4.0, 5.0, 0.0, -2.0});
  EXPECT(portable::scale(x, y).equal(scale(x, y)));
  EXPECT(portable::unscale(x, y).equal(unscale(x, y)));
  const at::Tensor ones = at::ones({7}, at::kDouble);
  const at::Tensor of_x = variable(x);
  EXPECT(
      gradient(scale(of_x, y), ones, of_x).equal(at::tensor({0.0, 0.0, 0.0, 4.0, 5.0, 0.0, -2.0})));
  const at::Tensor of_y = variable(y);
  EXPECT(gradient(scale(x, of_y), ones, of_y).equal(x));
  const at::Tensor finite = variable(at::tensor({3.0, 3.0, 3.0, 4.0, 5.0, 1.0, -2.0}));
  EXPECT(near(gradient(unscale(x, finite), ones, finite), x.neg().div(finite.detach().square()),
              1e-14));
  EXPECT(near(gradient(unscale(of_x, finite), ones, of_x), finite.detach().reciprocal(), 1e-14));
}

TEST(array_ops_refuse_more_ranks_than_a_float_can_hold) {
  constexpr int64_t kMost = int64_t{1} << 24;
  std::vector<float> values(kMost + 2);
  const auto rank_all = [&](int64_t count) {
    const std::vector<int64_t> segments{0, 1, 1 + count};
    rank(std::span<const float>(values), segments, std::span<float>(values));
  };
  EXPECT_CODE("ERR_REQUEST", rank_all(kMost + 1));
  EXPECT_CODE("", rank_all(3));
}

}  // namespace
}  // namespace tokengrad
