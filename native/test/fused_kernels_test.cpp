// Tests of the kernels: every op against the C library in double, and all variants bit for bit.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "core/fused/kernels.h"
#include "test/check.h"

namespace tokengrad::fused {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Operands = std::array<std::vector<float>, kMostOperands>;

/// Special values and their neighbours, then random bits, then numbers as losses have them.
std::vector<float> hard_values() {
  std::vector<float> values{
      0.0f,       -0.0f,      1.0f,       -1.0f,   kInfinite, -kInfinite, kNan,     1e-45f,
      -1e-45f,    1e-38f,     1.2e-38f,   3.4e38f, -3.4e38f,  0.5f,       -0.5f,    2.0f,
      1e-7f,      -1e-7f,     1e-4f,      -1e-4f,  88.72283f, 88.8f,      89.5f,    -87.3f,
      -87.4f,     -95.0f,     -103.2f,    -103.9f, -104.5f,   20.0f,      -20.0f,   9.0f,
      -9.0f,      0.693147f,  -0.693147f, 0.3466f, -0.3466f,  1.4142f,    0.70710f, 16777216.f,
      0.9999999f, 1.0000001f, -0.9999999f};
  std::mt19937 random(7);
  for (int i = 0; i < 100000; ++i)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  std::uniform_real_distribution<float> near(-3.0f, 3.0f);
  std::uniform_real_distribution<float> far(-110.0f, 95.0f);
  for (int i = 0; i < 100000; ++i) values.push_back(near(random));
  for (int i = 0; i < 100000; ++i) values.push_back(far(random));
  std::uniform_real_distribution<float> exponent(-30.0f, 0.0f);
  for (int i = 0; i < 50000; ++i) values.push_back(std::exp2(exponent(random)) * (i % 2 ? 1 : -1));
  values.resize(values.size() / kLanes * kLanes);
  return values;
}

/// The same values, in another order for each operand.
Operands operands_of(const std::vector<float>& values) {
  Operands operands{values, values, values};
  std::mt19937 random(3);
  std::shuffle(operands[1].begin(), operands[1].end(), random);
  std::shuffle(operands[2].begin(), operands[2].end(), random);
  // Equal operands are a case of their own.
  for (size_t i = 0; i < values.size(); i += 5) operands[1][i] = operands[0][i];
  return operands;
}

std::vector<float> run_loop(const Kernel& kernel, unsigned shared, const Operands& in,
                            double parameter) {
  std::vector<float> out(in[0].size());
  kernel.loops[shared](out.data(), in[0].data(), in[1].data(), in[2].data(),
                       static_cast<int64_t>(out.size()), parameter);
  return out;
}

std::vector<double> run_wide(const Kernel& kernel, const Operands& floats, double parameter) {
  std::array<std::vector<double>, kMostOperands> in;
  for (size_t k = 0; k < in.size(); ++k) in[k].assign(floats[k].begin(), floats[k].end());
  std::vector<double> out(in[0].size());
  kernel.wide(out.data(), in[0].data(), in[1].data(), in[2].data(),
              static_cast<int64_t>(out.size()), parameter);
  return out;
}

/// Equal bits; any NaN is like any other.
template <typename T>
bool is_same(T x, T y) {
  return (x == y && std::signbit(x) == std::signbit(y)) || (x != x && y != y);
}

/// Error in units of the last place of the right float.
double ulps(float got, double right) {
  const auto rounded = static_cast<float>(right);
  if (is_same(got, rounded) || got == rounded) return 0;
  if (!std::isfinite(got) || !std::isfinite(rounded)) {
    // On the edge of overflow the right result may itself round either way.
    const double largest = std::numeric_limits<float>::max();
    const double as_large = std::isfinite(rounded) ? std::abs(right) : std::abs(double{got});
    return std::isinf(got) != std::isinf(rounded) && as_large >= largest * (1 - 1e-7) ? 1 : 1e9;
  }
  const float size = std::abs(rounded);
  const double step = double{std::nextafter(size, kInfinite)} - double{size};
  return std::abs(double{got} - right) / step;
}

struct Reference {
  double most_ulps;
  std::function<double(double, double, double)> value;
};

double smaller(double x, double y) {
  return std::isnan(x) || std::isnan(y) ? NAN : std::fmin(x, y);
}
double larger(double x, double y) { return std::isnan(x) || std::isnan(y) ? NAN : std::fmax(x, y); }

const std::map<std::string, Reference>& references() {
  static const std::map<std::string, Reference> all{
      {"add", {0.5, [](double x, double y, double) { return x + y; }}},
      {"sub", {0.5, [](double x, double y, double) { return x - y; }}},
      {"mul", {0.5, [](double x, double y, double) { return x * y; }}},
      {"div", {0.5, [](double x, double y, double) { return x / y; }}},
      {"scale", {0.5, [](double x, double y, double) { return x == 0 ? 0 : x * y; }}},
      {"unscale", {0.5, [](double x, double y, double) { return x == 0 ? 0 : x / y; }}},
      {"minimum", {0, [](double x, double y, double) { return smaller(x, y); }}},
      {"maximum", {0, [](double x, double y, double) { return larger(x, y); }}},
      {"clamp", {0, [](double x, double y, double z) { return smaller(larger(x, y), z); }}},
      {"neg", {0, [](double x, double, double) { return -x; }}},
      {"abs", {0, [](double x, double, double) { return std::abs(x); }}},
      {"square", {0.5, [](double x, double, double) { return x * x; }}},
      {"sqrt", {0.5, [](double x, double, double) { return std::sqrt(x); }}},
      {"exp", {2, [](double x, double, double) { return std::exp(x); }}},
      {"log", {2, [](double x, double, double) { return std::log(x); }}},
      {"log1p", {1, [](double x, double, double) { return std::log1p(x); }}},
      {"expm1", {1, [](double x, double, double) { return std::expm1(x); }}},
      {"sigmoid", {1, [](double x, double, double) { return 1 / (1 + std::exp(-x)); }}},
      {"logSigmoid",
       {1, [](double x, double,
              double) { return (x > 0 ? 0 : x) - std::log1p(std::exp(-std::abs(x))); }}},
      {"tanh", {1, [](double x, double, double) { return std::tanh(x); }}},
      {"erf", {1, [](double x, double, double) { return std::erf(x); }}},
      {"sign", {0, [](double x, double, double) { return double(x > 0) - double(x < 0); }}},
      {"floor", {0, [](double x, double, double) { return std::floor(x); }}},
      {"gt", {0, [](double x, double y, double) { return double(x > y); }}},
      {"ge", {0, [](double x, double y, double) { return double(x >= y); }}},
      {"lt", {0, [](double x, double y, double) { return double(x < y); }}},
      {"le", {0, [](double x, double y, double) { return double(x <= y); }}},
      {"eq", {0, [](double x, double y, double) { return double(x == y); }}},
      {"ne", {0, [](double x, double y, double) { return double(x != y); }}},
      {"isFinite", {0, [](double x, double, double) { return double(std::isfinite(x)); }}},
      {"and", {0, [](double x, double y, double) { return double(x != 0 && y != 0); }}},
      {"or", {0, [](double x, double y, double) { return double(x != 0 || y != 0); }}},
      {"not", {0, [](double x, double, double) { return double(x == 0); }}},
      {"where", {0, [](double mask, double x, double y) { return mask != 0 ? x : y; }}},
  };
  return all;
}

void check_accuracy(const Kernel& kernel, const Reference& reference, const Operands& in,
                    double parameter) {
  const std::vector<float> out = run_loop(kernel, 0, in, parameter);
  for (size_t i = 0; i < out.size(); ++i) {
    const double right = reference.value(in[0][i], in[1][i], in[2][i]);
    if (ulps(out[i], right) <= reference.most_ulps) continue;
    std::ostringstream message;
    message << kernel.name << "(" << in[0][i] << ", " << in[1][i] << ", " << in[2][i]
            << "): expected " << right << ", got " << out[i] << ", off by " << ulps(out[i], right);
    test::fail(__FILE__, __LINE__, message.str());
  }
}

const Kernel& kernel_named(const std::string& name) {
  const std::span<const Kernel> kernels(variants().front()->kernels, variants().front()->count);
  const auto found = std::ranges::find(kernels, name, &Kernel::name);
  EXPECT(found != kernels.end());
  return *found;
}

TEST(fused_kernels_are_as_exact_as_they_say) {
  const Operands in = operands_of(hard_values());
  for (const auto& [name, reference] : references())
    check_accuracy(kernel_named(name), reference, in, 0);
}

TEST(fused_power_is_exact_for_all_sorts_of_exponents) {
  const Operands in = operands_of(hard_values());
  for (const double exponent : {0.0, 1.0, 2.0, 3.0, -1.0, -2.0, -3.0, 0.5, -0.5, 1.5, 0.1, 7.0}) {
    const Reference power{1,
                          [exponent](double x, double, double) { return std::pow(x, exponent); }};
    check_accuracy(kernel_named("pow"), power, in, exponent);
  }
}

TEST(fused_kernels_have_a_reference_each) {
  for (size_t i = 0; i < variants().front()->count; ++i) {
    const std::string name = variants().front()->kernels[i].name;
    EXPECT(name == "pow" || references().contains(name));
  }
}

TEST(fused_kernels_of_doubles_follow_the_references) {
  const Operands in = operands_of(hard_values());
  for (const auto& [name, reference] : references()) {
    const std::vector<double> out = run_wide(kernel_named(name), in, 0);
    for (size_t i = 0; i < out.size(); ++i) {
      const double right = reference.value(in[0][i], in[1][i], in[2][i]);
      const double off = std::abs(out[i] - right);
      EXPECT(out[i] == right || (out[i] != out[i] && right != right) ||
             off <= 1e-15 * std::abs(right));
    }
  }
}

TEST(fused_kernels_of_all_variants_give_the_same_bits) {
  const Operands in = operands_of(hard_values());
  const Variant& first = *variants().front();
  for (const Variant* variant : variants()) {
    EXPECT_EQUAL(variant->count, first.count);
    for (size_t k = 0; k < first.count; ++k) {
      EXPECT_EQUAL(std::string(variant->kernels[k].name), first.kernels[k].name);
      const std::vector<float> expected = run_loop(first.kernels[k], 0, in, 1.5);
      const std::vector<float> got = run_loop(variant->kernels[k], 0, in, 1.5);
      for (size_t i = 0; i < got.size(); ++i) EXPECT(is_same(got[i], expected[i]));
      const std::vector<double> wide_expected = run_wide(first.kernels[k], in, 1.5);
      const std::vector<double> wide = run_wide(variant->kernels[k], in, 1.5);
      for (size_t i = 0; i < wide.size(); ++i) EXPECT(is_same(wide[i], wide_expected[i]));
    }
  }
}

TEST(fused_kernels_take_shared_operands) {
  Operands in = operands_of(hard_values());
  for (auto& values : in) values.resize(4096);
  for (const Variant* variant : variants()) {
    for (size_t k = 0; k < variant->count; ++k) {
      const Kernel& kernel = variant->kernels[k];
      for (unsigned shared = 1; shared + 1 < 1u << kernel.operands; ++shared) {
        for (const size_t from : {size_t{3}, size_t{700}}) {
          Operands whole = in;
          Operands one = in;
          for (size_t i = 0; i < kMostOperands; ++i) {
            if (!(shared >> i & 1)) continue;
            whole[i].assign(4096, in[i][from]);
            one[i].assign(1, in[i][from]);
          }
          // The first operand's size is the loop's.
          std::vector<float> got(4096);
          kernel.loops[shared](got.data(), one[0].data(), one[1].data(), one[2].data(), 4096, 1.5);
          const std::vector<float> expected = run_loop(kernel, 0, whole, 1.5);
          for (size_t i = 0; i < got.size(); ++i) EXPECT(is_same(got[i], expected[i]));
        }
      }
    }
  }
}

TEST(fused_kernels_may_write_over_an_operand) {
  const Operands in = operands_of(hard_values());
  for (size_t k = 0; k < variants().front()->count; ++k) {
    const Kernel& kernel = variants().front()->kernels[k];
    const std::vector<float> expected = run_loop(kernel, 0, in, 1.5);
    for (size_t over = 0; over < kernel.operands; ++over) {
      Operands own = in;
      kernel.loops[0](own[over].data(), own[0].data(), own[1].data(), own[2].data(),
                      static_cast<int64_t>(expected.size()), 1.5);
      for (size_t i = 0; i < expected.size(); ++i) EXPECT(is_same(own[over][i], expected[i]));
    }
  }
}

TEST(fused_folds_take_any_number_of_values) {
  const std::vector<float> values{3, -1, 4, 1, -5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3,
                                  2, 3,  8, 4, 6,  2, 6, 4, 3, 3, 8, 3, 2, 7, 9, 5};
  for (const Variant* variant : variants()) {
    for (const Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
      for (int64_t count = 0; count <= 32; ++count) {
        std::vector<double> lanes(kLanes, empty_of(reduction));
        std::vector<double> expected = lanes;
        variant->folds[static_cast<size_t>(reduction)](values.data(), count, lanes.data());
        for (int64_t i = 0; i < count; ++i)
          expected[i % kLanes] = join(reduction, expected[i % kLanes], values[i]);
        EXPECT(lanes == expected);
      }
    }
  }
}

TEST(fused_extremes_let_nan_win) {
  for (const Variant* variant : variants()) {
    for (const Reduction reduction : {Reduction::kMax, Reduction::kMin}) {
      std::vector<float> values(2 * kLanes, 1.0f);
      values[3] = kNan;
      std::vector<double> lanes(kLanes, empty_of(reduction));
      variant->folds[static_cast<size_t>(reduction)](values.data(), 2 * kLanes, lanes.data());
      EXPECT(lanes[3] != lanes[3]);
      EXPECT_EQUAL(lanes[4], 1.0);
      EXPECT(std::isnan(join(reduction, lanes[3], 1.0)) &&
             std::isnan(join(reduction, 1.0, lanes[3])));
    }
  }
}

}  // namespace
}  // namespace tokengrad::fused
