// Tests of what a run says about a loss or gradient that is not finite: the op and the place where
// that began, and all samples that are to blame.
#include "core/culprits.h"

#include <limits>

#include "test/programs.h"

namespace tokengrad {
namespace {

using test::Batch;
using test::Builder;
using test::fact;
using test::kNever;
using Doubles = std::vector<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What a run reports that is not finite, by every executor of the batch's precision the same.
template <typename T>
Error fault_of(const ProgramSpec& spec, Batch<T>& batch, Dtype dtype) {
  const Compiled compiled(spec);
  batch.prepare(compiled.program);
  Request request = batch.request();
  request.dtype = dtype;
  request.output = request.output.first(request.output.size() / sizeof(T) * bytes_of(dtype));
  std::vector<Executor> executors{Executor::kTorch};
  if (request.precision == at::kFloat) executors.push_back(Executor::kFused);
  std::optional<Error> found;
  for (const Executor executor : executors) {
    try {
      run_program(compiled, request, executor, at::kCPU, kNever);
    } catch (const Error& error) {
      if (!found) found = error;
      EXPECT_EQUAL(error.what(), std::string(found->what()));
    }
  }
  if (!found) test::fail(__FILE__, __LINE__, "expected a fault");
  EXPECT_EQUAL(found->code(), std::string("ERR_NON_FINITE"));
  return *found;
}

constexpr double kNoNode = -1;

/// The first culprit and the samples to blame.
struct Expected {
  double node;
  double sample = -1;
  double position = -1;
  double group = -1;
  Doubles samples{};
  double shared = 0;
};

void check(const char* file, int line, const Error& error, const Expected& expected) {
  const auto equal = [&](const char* name, double value, double otherwise) {
    test::check_equal(file, line, name, fact<double>(error, name, otherwise), value);
  };
  equal("node", expected.node, kNoNode);
  equal("sample", expected.sample, -1);
  equal("position", expected.position, -1);
  equal("group", expected.group, -1);
  equal("shared", expected.shared, 0);
  test::expect_near(file, line, fact<Doubles>(error, "samples", {}), expected.samples, 0);
}
#define EXPECT_FAULT(error, ...) check(__FILE__, __LINE__, error, Expected __VA_ARGS__)

/// The fault of the sum over all tokens of what `build` makes; the gradient is of no matter.
template <typename T, typename Build>
Error fault_of_sum(Batch<T>& batch, const Build& build) {
  Builder builder;
  const size_t logprobs = builder.input(Axis::kToken);
  const size_t loss = builder.sum(build(builder, logprobs));
  return fault_of(builder.spec(loss, builder.token(0)), batch, Dtype::kFloat32);
}

TEST(culprit_is_the_first_op_whose_operands_are_finite) {
  Batch<float> batch;
  batch.logprobs = {-0.1f, -0.2f, -0.3f, -4.0f, -5.0f};
  size_t exps = 0;
  const Error error = fault_of_sum(batch, [&](Builder& b, size_t x) {
    exps = b.aten("exp", {b.aten("mul.Tensor", {x, b.token(-100)})});
    return b.aten("sub.Tensor", {exps, exps});
  });
  EXPECT_FAULT(error, {.node = double(exps), .sample = 2, .position = 1, .samples = {2}});
  EXPECT_EQUAL(fact<double>(error, "value", 0), kInfinity);
  EXPECT_NEAR(fact<Doubles>(error, "operands", {}), Doubles{400}, 0);
}

TEST(culprits_are_all_samples_that_have_one) {
  Batch<double> batch;
  batch.logprobs = {-1, std::nan(""), -3, kInfinity, std::nan("")};
  const Error error = fault_of_sum(batch, [](Builder&, size_t x) { return x; });
  EXPECT_FAULT(error, {.node = 0, .sample = 0, .position = 2, .samples = {0, 2}});
}

TEST(culprits_of_a_group_are_all_its_samples) {
  Batch<float> batch;
  batch.logprobs = {0, 0, -3, -4, -5};
  size_t logs = 0;
  const Error error = fault_of_sum(batch, [&](Builder& b, size_t x) {
    logs = b.aten("log", {b.aten("neg", {b.op("sum", {x}, Axis::kGroup)})});
    return logs;
  });
  EXPECT_FAULT(error, {.node = double(logs), .group = 0, .samples = {0, 1}});
}

TEST(culprit_of_the_batch_is_shared) {
  Batch<float> batch;
  Builder builder;
  const size_t sum = builder.sum(builder.input(Axis::kToken));
  const size_t root = builder.aten("sqrt", {sum});
  const Error error = fault_of(builder.spec(root, builder.token(0)), batch, Dtype::kFloat32);
  EXPECT_FAULT(error, {.node = double(root), .shared = 1});
  EXPECT_NEAR(fact<Doubles>(error, "operands", {}), Doubles{-15}, 0);
}

TEST(culprit_among_reductions_names_its_segment) {
  Batch<float> batch;
  size_t largest = 0;
  const Error error = fault_of_sum(batch, [&](Builder& b, size_t x) {
    return largest = b.op("max", {x}, Axis::kSample);  // sample 1 has no token
  });
  EXPECT_FAULT(error, {.node = double(largest), .sample = 1, .samples = {1}});
}

TEST(culprit_of_an_infinite_constant_is_the_op_that_lets_it_through) {
  Batch<float> batch;
  size_t added = 0;
  const Error error = fault_of_sum(batch, [&](Builder& b, size_t x) {
    const size_t infinity = b.token(kInfinity);
    return added = b.aten("add.Tensor", {b.aten("minimum", {x, infinity}), infinity});
  });
  EXPECT_FAULT(error, {.node = double(added), .sample = 0, .position = 1, .samples = {0, 2}});
}

TEST(culprits_are_not_what_was_cut_off) {
  // Token 0 overflows in each of these and is cut off; the last token makes the loss NaN.
  Batch<float> batch;
  batch.logprobs = {400, 1, 1, 1, -1};
  const auto check_cut = [&](const auto& cut) {
    size_t logs = 0;
    const Error error = fault_of_sum(batch, [&](Builder& b, size_t x) {
      logs = b.aten("log", {x});
      return b.aten("add.Tensor", {cut(b, x, b.aten("exp", {x})), logs});
    });
    EXPECT_FAULT(error, {.node = double(logs), .sample = 2, .position = 2, .samples = {2}});
  };
  const auto high = [](Builder& b, size_t x) { return b.aten("gt.Tensor", {x, b.token(10)}); };
  check_cut([](Builder& b, size_t, size_t e) { return b.aten("minimum", {e, b.token(5)}); });
  check_cut([](Builder& b, size_t, size_t e) {
    return b.aten("clamp.Tensor", {e, b.token(-5), b.token(5)});
  });
  check_cut([&](Builder& b, size_t x, size_t e) {
    return b.aten("where.self", {high(b, x), b.token(0), e});
  });
  check_cut([](Builder& b, size_t x, size_t e) {
    const size_t low = b.op("indicator", {b.aten("le.Tensor", {x, b.token(10)})}, Axis::kToken);
    return b.op("scale", {low, e}, Axis::kToken);
  });
}

TEST(culprits_are_in_the_branch_that_was_taken) {
  Batch<float> batch;
  size_t roots = 0;
  const Error error = fault_of_sum(batch, [&](Builder& b, size_t x) {
    const size_t logs = b.aten("log", {x});  // NaN as well, and before
    roots = b.aten("sqrt", {x});
    const size_t high = b.aten("ge.Tensor", {x, b.token(-2)});
    return b.aten("where.self", {high, roots, b.aten("where.self", {high, logs, x})});
  });
  EXPECT_FAULT(error, {.node = double(roots), .sample = 0, .position = 1, .samples = {0}});
}

TEST(culprit_of_an_extreme_is_like_it) {
  // The logarithm of 0 is -Infinity, which makes neither maximum +Infinity.
  Batch<float> batch;
  batch.logprobs = {0, 1, 0, 400, 1};
  size_t exps = 0;
  const Error error = fault_of_sum(batch, [&](Builder& b, size_t x) {
    const size_t logs = b.aten("log", {x});
    exps = b.aten("exp", {x});
    const size_t largest = b.op("max", {b.aten("add.Tensor", {logs, exps})}, Axis::kGroup);
    return b.aten("maximum", {b.op("spread", {largest}, Axis::kToken), exps});
  });
  EXPECT_FAULT(error, {.node = double(exps), .sample = 2, .position = 1, .samples = {2}});
}

TEST(culprits_behind_array_ops_are_found_by_place) {
  Batch<float> batch;
  batch.logprobs = {1, -1, 1, -1, -1};
  const auto check_at = [&](Doubles samples, double position, const auto& build) {
    size_t logs = 0;
    const Error error = fault_of_sum(batch, [&](Builder& b, size_t x) {
      logs = b.aten("log", {x});
      return build(b, logs);
    });
    EXPECT_FAULT(
        error,
        {.node = double(logs), .sample = samples[0], .position = position, .samples = samples});
  };
  const auto shift = [](double offset) {
    return [offset](Builder& b, size_t x) {
      return b.op("shift", {x}, Axis::kToken, {{"offset", offset}});
    };
  };
  check_at({2}, 1, shift(1));      // drops the last token of each sample
  check_at({0, 2}, 2, shift(-1));  // drops the first
  check_at({2}, 2, shift(-2));     // keeps the last of the third sample
  const auto cumsum = [](double reverse, double exclusive) {
    return [=](Builder& b, size_t x) {
      return b.op("cumsum", {x}, Axis::kToken,
                  {{"reverse", reverse}, {"exclusive", exclusive}, {"discount", 1}});
    };
  };
  check_at({0, 2}, 2, cumsum(0, 0));
  check_at({2}, 1, cumsum(0, 1));  // in sample 0 only the last is spoilt, which nothing sums
  check_at({0, 2}, 2, cumsum(1, 1));
  check_at({2}, 1, [&](Builder& b, size_t x) { return shift(-2)(b, cumsum(0, 0)(b, x)); });
  const auto gather = [](double index) {
    return [index](Builder& b, size_t x) {
      const size_t sums = b.op("sum", {x}, Axis::kSample);
      const size_t number = b.op("spread", {b.constant(index)}, Axis::kGroup);
      return b.op("gather", {sums, number}, Axis::kGroup);
    };
  };
  check_at({0}, 2, gather(0));
  check_at({2}, 1, gather(2));
  check_at({0, 2}, 2, [](Builder& b, size_t x) {
    const size_t sums = b.op("sum", {x}, Axis::kSample);
    const size_t number = b.op("spread", {b.constant(1)}, Axis::kSample);
    return b.op("scatter", {sums, number}, Axis::kGroup);
  });
}

TEST(culprit_of_a_running_sum_is_the_step_that_overflows) {
  Batch<float> batch;
  batch.logprobs = {1, 1, 2e38f, 2e38f, 2e38f};
  size_t sums = 0;
  const Error error = fault_of_sum(batch, [&](Builder& b, size_t x) {
    return sums = b.op("cumsum", {x}, Axis::kToken,
                       {{"reverse", 0}, {"exclusive", 0}, {"discount", 1}});
  });
  EXPECT_FAULT(error, {.node = double(sums), .sample = 2, .position = 1, .samples = {2}});
}

TEST(culprit_of_a_gradient_is_looked_for_behind_its_own_tokens) {
  // The forward pass is finite; the backward pass divides by the square roots of two tokens.
  Builder builder;
  const size_t logprobs = builder.input(Axis::kToken);
  const size_t roots = builder.aten("sqrt", {logprobs});
  const size_t exps = builder.aten("exp", {builder.aten("neg", {logprobs})});
  const size_t loss = builder.sum(builder.aten("add.Tensor", {roots, exps}));
  builder.end_forward();
  const size_t slopes = builder.op("unscale", {builder.token(0.5), roots}, Axis::kToken);
  const size_t gradient = builder.aten("sub.Tensor", {slopes, exps});
  Batch<float> batch;
  batch.logprobs = {1, 0, 1, 0, 1};
  const Error error = fault_of(builder.spec(loss, gradient), batch, Dtype::kFloat32);
  EXPECT_FAULT(error, {.node = double(slopes), .sample = 0, .position = 2, .samples = {0, 2}});
  EXPECT_NEAR(fact<Doubles>(error, "operands", {}), (Doubles{0.5, 0}), 0);
}

TEST(gradient_that_is_too_large_for_its_type_has_no_culprit) {
  Builder builder;
  const size_t logprobs = builder.input(Axis::kToken);
  const size_t ten = builder.token(10);
  const size_t high = builder.aten("gt.Tensor", {logprobs, builder.token(-5)});
  const size_t factor = builder.aten("where.self", {high, builder.token(3.4e38), ten});
  const size_t loss = builder.sum(builder.aten("mul.Tensor", {logprobs, factor}));
  const auto check_type = [&](Dtype dtype, Doubles values, double value, double position,
                              Doubles samples) {
    Batch<double> batch;
    batch.logprobs = values;
    const Error error = fault_of(builder.spec(loss, factor), batch, dtype);
    EXPECT_FAULT(error,
                 {.node = kNoNode, .sample = samples[0], .position = position, .samples = samples});
    EXPECT_EQUAL(fact<double>(error, "value", 0), value);
  };
  check_type(Dtype::kBfloat16, {0, 0, -9, -9, 0}, 3.4e38, 1, {0, 2});
  check_type(Dtype::kBfloat16, {-9, -9, -9, -9, 0}, 3.4e38, 2, {2});
}

TEST(loss_that_is_an_infinite_constant_has_no_culprit) {
  Builder builder;
  builder.input(Axis::kToken);
  Batch<float> batch;
  const size_t loss = builder.constant(kInfinity);
  const Error error = fault_of(builder.spec(loss, builder.token(0)), batch, Dtype::kFloat32);
  EXPECT_EQUAL(fact<double>(error, "node", -1), -1);
  EXPECT_EQUAL(fact<double>(error, "value", 0), kInfinity);
  EXPECT_EQUAL(fact<double>(error, "shared", 0), 1);
}

}  // namespace
}  // namespace tokengrad
