// Tests of each op as the torch executor computes it, against plain loops and plain numbers.
#include "core/evaluation.h"

#include <cmath>
#include <functional>
#include <limits>

#include "test/programs.h"

namespace tokengrad {
namespace {

using test::Batch;
using test::Builder;
using test::value_of;
using Doubles = std::vector<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

/// The values of the node that `build` makes from the log-probabilities.
template <typename T>
Doubles values(Batch<T>& batch, const std::function<size_t(Builder&, size_t)>& build) {
  Builder builder;
  const size_t logprobs = builder.input(Axis::kToken);
  const size_t node = build(builder, logprobs);
  return value_of(builder, node, builder.sum(logprobs), batch);
}

template <typename T>
void check_elementwise() {
  const double tolerance = std::is_same_v<T, float> ? 1e-6 : 1e-14;
  Batch<T> batch;
  batch.logprobs = {T(-2.5), T(-0.75), T(0), T(0.5), T(3)};
  const auto unary = [&](const char* aten, double (*plain)(double), Attributes attributes = {}) {
    Doubles expected;
    for (const T x : batch.logprobs) expected.push_back(plain(static_cast<double>(x)));
    EXPECT_NEAR(values(batch, [&](Builder& b, size_t x) { return b.aten(aten, {x}, attributes); }),
                expected, tolerance);
  };
  unary("neg", [](double x) { return -x; });
  unary("abs", [](double x) { return std::abs(x); });
  unary("square", [](double x) { return x * x; });
  unary("sqrt", [](double x) { return std::sqrt(x); });
  unary("exp", [](double x) { return std::exp(x); });
  unary("log", [](double x) { return std::log(x); });
  unary("log1p", [](double x) { return std::log1p(x); });
  unary("expm1", [](double x) { return std::expm1(x); });
  unary("sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); });
  unary("log_sigmoid", [](double x) { return -std::log1p(std::exp(-x)); });
  unary("tanh", [](double x) { return std::tanh(x); });
  unary("erf", [](double x) { return std::erf(x); });
  unary("sign", [](double x) { return double((x > 0) - (x < 0)); });
  unary("floor", [](double x) { return std::floor(x); });
  unary("detach", [](double x) { return x; });
  unary("isfinite", [](double) { return 1.0; });
  unary("pow.Tensor_Scalar", [](double x) { return x * x * x; }, {{"exponent", 3}});

  const auto binary = [&](const char* aten, double (*plain)(double, double)) {
    Doubles expected;
    for (const T x : batch.logprobs) expected.push_back(plain(static_cast<double>(x), 0.5));
    EXPECT_NEAR(
        values(batch, [&](Builder& b, size_t x) { return b.aten(aten, {x, b.token(0.5)}); }),
        expected, tolerance);
  };
  binary("add.Tensor", [](double x, double y) { return x + y; });
  binary("sub.Tensor", [](double x, double y) { return x - y; });
  binary("mul.Tensor", [](double x, double y) { return x * y; });
  binary("div.Tensor", [](double x, double y) { return x / y; });
  binary("minimum", [](double x, double y) { return std::min(x, y); });
  binary("maximum", [](double x, double y) { return std::max(x, y); });
  binary("gt.Tensor", [](double x, double y) { return double(x > y); });
  binary("ge.Tensor", [](double x, double y) { return double(x >= y); });
  binary("lt.Tensor", [](double x, double y) { return double(x < y); });
  binary("le.Tensor", [](double x, double y) { return double(x <= y); });
  binary("eq.Tensor", [](double x, double y) { return double(x == y); });
  binary("ne.Tensor", [](double x, double y) { return double(x != y); });
}

TEST(evaluation_of_elementwise_ops) {
  check_elementwise<float>();
  check_elementwise<double>();
}

TEST(evaluation_of_masks_and_choices) {
  Batch<float> batch;
  const auto low = [](Builder& b, size_t x) { return b.aten("lt.Tensor", {x, b.token(-2)}); };
  const auto odd = [](Builder& b, size_t x) { return b.aten("gt.Tensor", {x, b.token(-4)}); };
  const auto both = [&](const char* name) {
    return values(batch,
                  [&](Builder& b, size_t x) { return b.aten(name, {low(b, x), odd(b, x)}); });
  };
  EXPECT_NEAR(both("logical_and"), (Doubles{0, 0, 1, 0, 0}), 0);
  EXPECT_NEAR(both("logical_or"), (Doubles{1, 1, 1, 1, 1}), 0);
  EXPECT_NEAR(
      values(batch, [&](Builder& b, size_t x) { return b.aten("logical_not", {low(b, x)}); }),
      (Doubles{1, 1, 0, 0, 0}), 0);
  EXPECT_NEAR(values(batch, [&](Builder& b,
                                size_t x) { return b.op("indicator", {low(b, x)}, Axis::kToken); }),
              (Doubles{0, 0, 1, 1, 1}), 0);
  EXPECT_NEAR(
      values(batch, [&](Builder& b,
                        size_t x) { return b.aten("where.self", {low(b, x), b.token(9), x}); }),
      (Doubles{-1, -2, 9, 9, 9}), 0);
  const auto clamp = [&](double lower, double upper) {
    return values(batch, [&](Builder& b, size_t x) {
      return b.aten("clamp.Tensor", {x, b.token(lower), b.token(upper)});
    });
  };
  EXPECT_NEAR(clamp(-4, -2), (Doubles{-2, -2, -3, -4, -4}), 0);
  EXPECT_NEAR(clamp(1, -2), (Doubles{-2, -2, -2, -2, -2}), 0);
}

TEST(evaluation_of_choices_keeps_nan) {
  Batch<float> batch;
  batch.logprobs = {-1, std::nanf(""), -3, -4, -5};
  for (const char* name : {"minimum", "maximum"}) {
    EXPECT(std::isnan(
        values(batch, [&](Builder& b, size_t x) { return b.aten(name, {x, b.token(0)}); })[1]));
  }
  EXPECT(std::isnan(values(batch, [](Builder& b, size_t x) {
    return b.aten("clamp.Tensor", {x, b.token(0), b.token(1)});
  })[1]));
}

template <typename T>
void check_reductions() {
  Batch<T> batch;
  const auto reduce = [&](const char* name, Axis axis) {
    return values(batch, [&](Builder& b, size_t x) { return b.op(name, {x}, axis); });
  };
  EXPECT_NEAR(reduce("sum", Axis::kSample), (Doubles{-3, 0, -12}), 0);
  EXPECT_NEAR(reduce("sum", Axis::kGroup), (Doubles{-3, -12}), 0);
  EXPECT_NEAR(reduce("sum", Axis::kBatch), (Doubles{-15}), 0);
  EXPECT_NEAR(reduce("max", Axis::kSample), (Doubles{-1, -kInfinity, -3}), 0);
  EXPECT_NEAR(reduce("max", Axis::kGroup), (Doubles{-1, -3}), 0);
  EXPECT_NEAR(reduce("max", Axis::kBatch), (Doubles{-1}), 0);
  EXPECT_NEAR(reduce("min", Axis::kSample), (Doubles{-2, kInfinity, -5}), 0);
  EXPECT_NEAR(reduce("min", Axis::kBatch), (Doubles{-5}), 0);
  EXPECT_NEAR(reduce("count", Axis::kSample), (Doubles{2, 0, 3}), 0);
  EXPECT_NEAR(reduce("count", Axis::kGroup), (Doubles{2, 3}), 0);
  EXPECT_NEAR(values(batch,
                     [](Builder& b, size_t x) {
                       return b.op("count", {b.aten("lt.Tensor", {x, b.token(-1)})}, Axis::kGroup);
                     }),
              (Doubles{1, 3}), 0);
  batch.logprobs[3] = std::numeric_limits<T>::quiet_NaN();
  for (const char* name : {"sum", "max", "min"}) {
    const Doubles samples = reduce(name, Axis::kSample);
    EXPECT(std::isfinite(samples[0]) && std::isnan(samples[2]));
    EXPECT(std::isnan(reduce(name, Axis::kBatch)[0]));
  }
}

TEST(evaluation_of_reductions) {
  check_reductions<float>();
  check_reductions<double>();
}

TEST(evaluation_of_spreads_from_every_axis) {
  Batch<float> batch;
  const auto spread = [&](Axis from, Axis to) {
    return values(
        batch, [&](Builder& b, size_t x) { return b.op("spread", {b.op("sum", {x}, from)}, to); });
  };
  EXPECT_NEAR(spread(Axis::kSample, Axis::kToken), (Doubles{-3, -3, -12, -12, -12}), 0);
  EXPECT_NEAR(spread(Axis::kGroup, Axis::kToken), (Doubles{-3, -3, -12, -12, -12}), 0);
  EXPECT_NEAR(spread(Axis::kBatch, Axis::kToken), Doubles(5, -15), 0);
  EXPECT_NEAR(spread(Axis::kGroup, Axis::kSample), (Doubles{-3, -3, -12}), 0);
  EXPECT_NEAR(spread(Axis::kBatch, Axis::kGroup), (Doubles{-15, -15}), 0);
  // A mask stays one, and a value that the precision cannot hold is rounded.
  EXPECT_NEAR(values(batch,
                     [](Builder& b, size_t x) {
                       const size_t sums = b.op("sum", {x}, Axis::kSample);
                       const size_t low = b.op("spread", {b.constant(-3)}, Axis::kSample);
                       return b.op("spread", {b.aten("lt.Tensor", {sums, low})}, Axis::kToken);
                     }),
              (Doubles{0, 0, 1, 1, 1}), 0);
  EXPECT_NEAR(values(batch, [](Builder& b, size_t) { return b.token(0.1); }),
              Doubles(5, static_cast<double>(0.1f)), 0);
}

TEST(evaluation_of_scale_and_unscale) {
  const auto check = [](auto batch) {
    using T = typename decltype(batch.logprobs)::value_type;
    batch.logprobs = {0, T(-0.0), 2, T(kInfinity), T(kNaN)};
    const auto with = [&](const char* name, double y) {
      return values(
          batch, [&](Builder& b, size_t x) { return b.op(name, {x, b.token(y)}, Axis::kToken); });
    };
    EXPECT_NEAR(with("scale", 3), (Doubles{0, 0, 6, kInfinity, kNaN}), 0);
    EXPECT_NEAR(with("scale", kInfinity), (Doubles{0, 0, kInfinity, kInfinity, kNaN}), 0);
    EXPECT_NEAR(with("scale", kNaN), (Doubles{0, 0, kNaN, kNaN, kNaN}), 0);
    EXPECT_NEAR(with("unscale", 4), (Doubles{0, 0, 0.5, kInfinity, kNaN}), 0);
    EXPECT_NEAR(with("unscale", 0), (Doubles{0, 0, kInfinity, kInfinity, kNaN}), 0);
    EXPECT_NEAR(with("unscale", kNaN), (Doubles{0, 0, kNaN, kNaN, kNaN}), 0);
    // By the variable, and of two constants.
    const auto by = [&](const char* name, double x) {
      return values(
          batch, [&](Builder& b, size_t y) { return b.op(name, {b.token(x), y}, Axis::kToken); });
    };
    EXPECT_NEAR(by("scale", 0), Doubles(5, 0), 0);
    EXPECT_NEAR(by("unscale", 1), (Doubles{kInfinity, -kInfinity, 0.5, 0, kNaN}), 0);
    EXPECT_NEAR(
        values(batch, [](Builder& b,
                         size_t) { return b.op("scale", {b.token(2), b.token(3)}, Axis::kToken); }),
        Doubles(5, 6), 0);
  };
  check(Batch<float>());
  check(Batch<double>());
}

TEST(evaluation_of_array_ops) {
  const auto check = [](auto batch) {
    const auto token = [&](const char* name, Attributes attributes) {
      return values(
          batch, [&](Builder& b, size_t x) { return b.op(name, {x}, Axis::kToken, attributes); });
    };
    const auto cumsum = [&](double reverse, double exclusive, double discount) {
      return token("cumsum",
                   {{"reverse", reverse}, {"exclusive", exclusive}, {"discount", discount}});
    };
    EXPECT_NEAR(cumsum(0, 0, 1), (Doubles{-1, -3, -3, -7, -12}), 0);
    EXPECT_NEAR(cumsum(1, 0, 1), (Doubles{-3, -2, -12, -9, -5}), 0);
    EXPECT_NEAR(cumsum(0, 1, 1), (Doubles{0, -1, 0, -3, -7}), 0);
    EXPECT_NEAR(cumsum(1, 0, 0.5), (Doubles{-2, -2, -6.25, -6.5, -5}), 0);
    EXPECT_NEAR(cumsum(1, 1, 0.5), (Doubles{-1, 0, -3.25, -2.5, 0}), 0);
    EXPECT_NEAR(token("shift", {{"offset", 1}}), (Doubles{0, -1, 0, -3, -4}), 0);
    EXPECT_NEAR(token("shift", {{"offset", -2}}), (Doubles{0, 0, -5, 0, 0}), 0);
    EXPECT_NEAR(token("rank", {{"within", 2}}), (Doubles{1, 0, 2, 1, 0}), 0);
    EXPECT_NEAR(token("rank", {{"within", 0}}), (Doubles{4, 3, 2, 1, 0}), 0);
    const auto sample = [&](const char* name, double within) {
      return values(batch, [&](Builder& b, size_t x) {
        return b.op(name, {b.op("sum", {x}, Axis::kSample)}, Axis::kSample, {{"within", within}});
      });
    };
    EXPECT_NEAR(sample("argsort", 0), (Doubles{2, 0, 1}), 0);
    EXPECT_NEAR(sample("argsort", 1), (Doubles{0, 1, 2}), 0);
    EXPECT_NEAR(sample("rank", 0), (Doubles{1, 2, 0}), 0);
    // The last sample of each group, by number; and back to the samples, where 1 gets none.
    const auto group = [&](bool back) {
      return values(batch, [&](Builder& b, size_t x) {
        const size_t first = b.op("members", {}, Axis::kGroup, {{"index", 0}});
        const size_t sums = b.op("sum", {x}, Axis::kSample);
        const size_t gathered = b.op("gather", {sums, first}, Axis::kGroup);
        return back ? b.op("scatter", {gathered, first}, Axis::kSample) : gathered;
      });
    };
    EXPECT_NEAR(group(false), (Doubles{-3, -12}), 0);
    EXPECT_NEAR(group(true), (Doubles{-3, 0, -12}), 0);
  };
  check(Batch<float>());
  check(Batch<double>());
}

TEST(evaluation_refuses_an_operator_that_changes_the_shape_or_the_type) {
  for (const char* name : {"mean", "gt.Scalar", "nonzero"}) {
    Builder builder;
    const size_t logprobs = builder.input(Axis::kToken);
    NodeSpec node{"odd", name, {logprobs}, {}, Axis::kToken, Kind::kNumber};
    if (std::string(name) == "gt.Scalar") node.attributes = {{"other", 0}};
    ProgramSpec spec = builder.spec(builder.sum(logprobs), logprobs);
    spec.nodes.push_back(node);
    const Program program(spec);
    Batch<float> batch;
    EXPECT_CODE("ERR_PROGRAM", test::run(run_torch, program, batch));
  }
}

TEST(evaluation_names_what_does_not_exist) {
  Batch<float> batch;
  const auto error_of = [&](const std::function<size_t(Builder&, size_t)>& build) {
    try {
      values(batch, build);
    } catch (const Error& error) {
      return error;
    }
    return Error("none", "none");
  };
  const Error small = error_of(
      [](Builder& b, size_t) { return b.op("members", {}, Axis::kGroup, {{"index", 1}}); });
  EXPECT_EQUAL(small.code(), std::string("ERR_GROUP_SIZE"));
  EXPECT_EQUAL(test::fact<double>(small, "group", -1), 1);
  EXPECT_EQUAL(test::fact<double>(small, "size", -1), 1);
  for (const double index : {3.0, -1.0, 0.5, kNaN}) {
    const Error outside = error_of([&](Builder& b, size_t x) {
      const size_t sums = b.op("sum", {x}, Axis::kSample);
      return b.op("gather", {sums, b.op("spread", {b.constant(index)}, Axis::kGroup)},
                  Axis::kGroup);
    });
    EXPECT_EQUAL(outside.code(), std::string("ERR_INDEX"));
    EXPECT_EQUAL(test::fact<double>(outside, "element", -1), 0);
    EXPECT_EQUAL(test::fact<double>(outside, "size", -1), 3);
  }
}

}  // namespace
}  // namespace tokengrad
