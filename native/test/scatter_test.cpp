// Tests of the result's types: bfloat16 to the last bit, and rows written whole.
#include "core/scatter.h"

#include <ATen/ops/tensor.h>
#include <c10/util/BFloat16.h>

#include <bit>
#include <cstring>
#include <limits>
#include <random>

#include "test/check.h"

namespace tokengrad {
namespace {

uint16_t bits_of_libtorch(float value) { return c10::BFloat16(value).x; }

TEST(bfloat16_corner_values) {
  const auto check = [](float value, uint16_t bits) { EXPECT_EQUAL(to_bfloat16(value), bits); };
  check(1.00390625f, 0x3F80);  // a tie goes to the even neighbour below
  check(1.01171875f, 0x3F82);  // a tie goes to the even neighbour above
  check(0.1f, 0x3DCD);
  check(-0.0425557f, 0xBD2E);
  check(3.3895314e38f, 0x7F7F);
  check(3.4e38f, 0x7F80);  // too large: an infinity, for the caller to report
  check(std::bit_cast<float>(0x7F800001u), 0x7FC0);
  check(std::bit_cast<float>(0xFFFFFFFFu), 0x7FC0);
  check(std::numeric_limits<float>::infinity(), 0x7F80);
  check(1e-40f, 0x0001);
  check(-0.0f, 0x8000);
}

TEST(bfloat16_of_every_upper_half_rounds_as_libtorch_does) {
  // For each bfloat16: its own bits, the tie above, and the neighbours of both.
  for (uint32_t upper = 0; upper <= 0xFFFF; ++upper) {
    for (const uint32_t lower : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      const float value = std::bit_cast<float>(upper << 16 | lower);
      EXPECT_EQUAL(to_bfloat16(value), bits_of_libtorch(value));
      EXPECT_EQUAL(to_bfloat16(static_cast<double>(value)), bits_of_libtorch(value));
    }
  }
}

TEST(bfloat16_of_random_bits_rounds_as_libtorch_does) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    EXPECT_EQUAL(to_bfloat16(value), bits_of_libtorch(value));
  }
}

TEST(bfloat16_of_float64_is_rounded_once) {
  // Just above a tie: by way of float32 it would become the tie, and go down.
  const double above = 1.00390625 + 1e-12;
  EXPECT_EQUAL(to_bfloat16(above), 0x3F81);
  EXPECT_EQUAL(to_bfloat16(-above), 0xBF81);
  // Just below a tie: by way of float32 it would become the tie, and go up.
  const double below = 1.01171875 - 1e-12;
  EXPECT_EQUAL(to_bfloat16(below), 0x3F81);
  EXPECT_EQUAL(to_bfloat16(1e300), 0x7F80);
  EXPECT_EQUAL(to_bfloat16(-1e300), 0xFF80);
  EXPECT_EQUAL(to_bfloat16(1e-300), 0x0000);
  EXPECT_EQUAL(to_bfloat16(std::nan("")), 0x7FC0);
}

/// Rows of 3 and 4 positions, trained 1 2 of the first and 0 and 3 of the second.
struct Rows {
  std::vector<uint32_t> row_lengths{3, 4};
  std::vector<uint32_t> run_counts{1, 2};
  std::vector<uint32_t> runs{1, 2, 0, 1, 3, 1};
  std::vector<uint32_t> group_sizes{2};
  Layout layout{{row_lengths, run_counts, runs, group_sizes}, at::kCPU};
};

template <typename T>
std::vector<T> scattered(const at::Tensor& gradient, Dtype dtype) {
  const Rows rows;
  std::vector<T> out(7);
  std::memset(out.data(), 0xAB, out.size() * sizeof(T));  // every byte must be written
  const auto first = scatter(gradient, rows.layout, dtype, std::as_writable_bytes(std::span(out)));
  EXPECT(!first.has_value());
  return out;
}

TEST(scatter_writes_full_rows_in_every_type) {
  const at::Tensor gradient = at::tensor({1.5, -2.0, 0.25, 3.0});
  for (const at::ScalarType precision : {at::kFloat, at::kDouble}) {
    const at::Tensor given = gradient.to(precision);
    EXPECT((scattered<float>(given, Dtype::kFloat32) ==
            std::vector<float>{0, 1.5, -2, 0.25, 0, 0, 3}));
    EXPECT((scattered<double>(given, Dtype::kFloat64) ==
            std::vector<double>{0, 1.5, -2, 0.25, 0, 0, 3}));
    EXPECT((scattered<uint16_t>(given, Dtype::kBfloat16) ==
            std::vector<uint16_t>{0, 0x3FC0, 0xC000, 0x3E80, 0, 0, 0x4040}));
  }
}

TEST(scatter_reports_the_first_value_that_is_not_finite_as_stored) {
  const Rows rows;
  std::vector<std::byte> out(7 * 8);
  const auto first = [&](const at::Tensor& gradient, Dtype dtype) {
    return scatter(gradient, rows.layout, dtype, std::span(out).first(7 * bytes_of(dtype)));
  };
  const double nan = std::nan("");
  EXPECT(first(at::tensor({1.0, 1.0, nan, nan}), Dtype::kFloat64) == 2);
  EXPECT(first(at::tensor({1.0f, 1.0f, 1.0f, 3.4e38f}), Dtype::kFloat32) == std::nullopt);
  EXPECT(first(at::tensor({1.0f, 1.0f, 1.0f, 3.4e38f}), Dtype::kBfloat16) == 3);
  EXPECT(first(at::tensor({1e300, 1.0, 1.0, 1.0}), Dtype::kFloat64) == std::nullopt);
  EXPECT(first(at::tensor({1e300, 1.0, 1.0, 1.0}), Dtype::kFloat32) == 0);
}

}  // namespace
}  // namespace tokengrad
