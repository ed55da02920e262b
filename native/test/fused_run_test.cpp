// Tests of whole fused runs: losses and gradients, passes, faults and cancelling.
#include <cmath>

#include "core/fused/run.h"
#include "test/check.h"
#include "test/fused_program.h"

namespace tokengrad::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_close(double got, double expected) {
  return std::abs(got - expected) <= 1e-6 * std::max(1.0, std::abs(expected));
}

/// Inputs of `clipped_policy_gradient` for a batch.
struct PolicyInputs {
  std::vector<float> logprobs, old, reference;
  std::vector<double> advantages;

  explicit PolicyInputs(const Batch& batch)
      : logprobs(random_floats(batch.tokens, -4, 0, 1)),
        old(random_floats(batch.tokens, -0.4f, 0.4f, 2)),
        reference(random_floats(batch.tokens, -1, 1, 3)),
        advantages(random_doubles(static_cast<int64_t>(batch.row_lengths.size()), -2, 2, 4)) {
    for (size_t i = 0; i < logprobs.size(); ++i) {
      old[i] += logprobs[i];
      reference[i] += logprobs[i];
    }
  }
  std::vector<InputData> data() const {
    return {data_of(logprobs), data_of(old), data_of(reference), data_of(advantages)};
  }
};

std::vector<uint32_t> ragged_lengths() {
  std::vector<uint32_t> lengths;
  for (uint32_t i = 0; i < 60; ++i) lengths.push_back(i * i * 37 % 2001);
  lengths.insert(lengths.end(), {0, 1, 15, 16, 17, 511, 512, 513, 1024, 0});
  return lengths;
}

TEST(fused_run_of_a_clipped_policy_gradient_has_its_loss_and_gradient) {
  const Batch batch(ragged_lengths());
  const PolicyInputs inputs(batch);
  const Answer answer = run_fused_program(clipped_policy_gradient(), batch, inputs.data());
  const std::vector<float> rows = answer.rows<float>();

  const Layout layout(batch.spec(), at::kCPU);
  const auto samples = static_cast<double>(layout.samples());
  double loss = 0;
  double penalties = 0;
  double clipped_tokens = 0;
  size_t zeros = rows.size() - static_cast<size_t>(batch.tokens);
  for (int64_t s = 0; s < layout.samples(); ++s) {
    const int64_t begin = layout.rows()[s].token;
    const int64_t end = layout.rows()[s + 1].token;
    for (int64_t t = begin; t < end; ++t) {
      const auto i = static_cast<size_t>(t);
      const double ratio = std::exp(double{inputs.logprobs[i]} - double{inputs.old[i]});
      const double drift = double{inputs.reference[i]} - double{inputs.logprobs[i]};
      const double penalty = std::exp(drift) - drift - 1;
      const double advantage = inputs.advantages[static_cast<size_t>(s)];
      const double plain = ratio * advantage;
      const double clipped = std::min(std::max(ratio, 0.8), 1.2) * advantage;
      const double weight = 1 / samples / static_cast<double>(end - begin);
      loss += (0.04 * penalty - std::min(plain, clipped)) * weight;
      penalties += penalty;
      clipped_tokens += clipped < plain ? 1 : 0;
      const double of_surrogate = clipped < plain ? 0 : -plain;
      const double gradient = weight * (of_surrogate - 0.04 * (std::exp(drift) - 1));
      const Place place = layout.place(t);
      const float got =
          rows[static_cast<size_t>(layout.rows()[place.sample].position + place.position)];
      EXPECT(std::abs(got - gradient) <= 2e-6 * weight);
    }
  }
  EXPECT(is_close(answer.computed.result.loss, loss));
  EXPECT(is_close(answer.computed.result.metrics.at(0),
                  penalties / static_cast<double>(batch.tokens)));
  EXPECT_EQUAL(answer.computed.result.metrics.at(1),
               clipped_tokens / static_cast<double>(batch.tokens));
  EXPECT(!answer.computed.non_finite_token);
  for (const float value : rows) zeros -= value == 0 ? 1 : 0;
  EXPECT_EQUAL(zeros, size_t{0});
}

/// log(sum(exp(x))) of each sample, added up, and its gradient: the softmax.
Program logsumexp() {
  Builder b;
  const size_t x = b.input(Axis::kToken);
  const size_t largest = b.structural("max", {x}, Axis::kSample);
  const size_t finite =
      b.op("where", {b.op("isFinite", {largest}), largest, b.spread(b.constant(0), Axis::kSample)});
  const size_t exps = b.op("exp", {b.op("sub", {x, b.spread(finite, Axis::kToken)})});
  const size_t sums = b.sum(exps, Axis::kSample);
  const size_t loss = b.sum(b.op("add", {b.op("log", {sums}), finite}), Axis::kBatch);
  return b.build(loss, b.op("div", {exps, b.spread(sums, Axis::kToken)}), {}, {sums});
}

TEST(fused_run_recomputes_what_later_passes_need) {
  const Program program = logsumexp();
  EXPECT_EQUAL(fused::Plan(program).passes().size(), size_t{3});
  EXPECT_EQUAL(fused::Plan(clipped_policy_gradient()).passes().size(), size_t{1});

  const Batch batch({700, 3, 40});
  const std::vector<float> x = random_floats(batch.tokens, -60, 60);
  const Answer answer = run_fused_program(program, batch, {data_of(x)}, Dtype::kFloat64);
  const Layout layout(batch.spec(), at::kCPU);
  const std::vector<double> rows = answer.rows<double>();
  double loss = 0;
  for (int64_t s = 0; s < 3; ++s) {
    double sum = 0;
    for (int64_t t = layout.rows()[s].token; t < layout.rows()[s + 1].token; ++t)
      sum += std::exp(double{x[static_cast<size_t>(t)]});
    loss += std::log(sum);
    for (int64_t t = layout.rows()[s].token; t < layout.rows()[s + 1].token; ++t) {
      const Place place = layout.place(t);
      const double got = rows[static_cast<size_t>(layout.rows()[s].position + place.position)];
      EXPECT(std::abs(got - std::exp(double{x[static_cast<size_t>(t)]}) / sum) <= 1e-6);
    }
  }
  EXPECT(is_close(answer.computed.result.loss, loss));
}

TEST(fused_run_gives_empty_samples_the_results_of_nothing) {
  Builder b;
  const size_t x = b.input(Axis::kToken);
  std::vector<size_t> outputs;
  for (const char* name : {"sum", "max", "min", "count"})
    outputs.push_back(b.structural(name, {x}, Axis::kSample));
  outputs.push_back(b.structural("max", {x}, Axis::kGroup));
  const Program program = b.build_outputs(outputs);
  const std::vector<float> values{1, -2, 5};
  const Answer answer =
      run_fused_program(program, Batch({0, 2, 0, 1}, {1, 2, 1}), {data_of(values)});
  EXPECT((answer.outputs[0] == std::vector<double>{0, -1, 0, 5}));
  EXPECT((answer.outputs[1] == std::vector<double>{-kInfinity, 1, -kInfinity, 5}));
  EXPECT((answer.outputs[2] == std::vector<double>{kInfinity, -2, kInfinity, 5}));
  EXPECT((answer.outputs[3] == std::vector<double>{0, 2, 0, 1}));
  EXPECT((answer.outputs[4] == std::vector<double>{-kInfinity, 1, 5}));
}

TEST(fused_run_lets_nan_through_every_reduction) {
  Builder b;
  const size_t x = b.input(Axis::kToken);
  std::vector<size_t> outputs;
  for (const char* name : {"sum", "max", "min"}) {
    outputs.push_back(b.structural(name, {x}, Axis::kSample));
    outputs.push_back(b.structural(name, {x}, Axis::kBatch));
  }
  const Program program = b.build_outputs(outputs);
  std::vector<float> values(40, 1.0f);
  values[21] = std::nanf("");
  const Answer answer = run_fused_program(program, Batch({20, 20}), {data_of(values)});
  for (size_t i = 0; i < outputs.size(); i += 2) {
    EXPECT(!std::isnan(answer.outputs[i][0]));
    EXPECT(std::isnan(answer.outputs[i][1]));
    EXPECT(std::isnan(answer.outputs[i + 1][0]));
  }
}

TEST(fused_run_writes_a_gradient_that_is_the_same_everywhere) {
  Builder b;
  const size_t loss = b.sum(b.input(Axis::kToken), Axis::kBatch);
  const Program program = b.build(loss, b.everywhere(1.5));
  const Batch batch({3, 0, 600});
  const std::vector<float> x = random_floats(batch.tokens, -1, 1);
  const std::vector<float> rows = run_fused_program(program, batch, {data_of(x)}).rows<float>();
  EXPECT_EQUAL(std::count(rows.begin(), rows.end(), 1.5f), 603);
  EXPECT_EQUAL(std::count(rows.begin(), rows.end(), 0.0f), batch.positions - 603);
}

TEST(fused_run_stores_every_type_of_gradient) {
  const Batch batch(ragged_lengths());
  const PolicyInputs inputs(batch);
  const Program program = clipped_policy_gradient();
  const auto run = [&](Dtype dtype) {
    return run_fused_program(program, batch, inputs.data(), dtype);
  };
  const std::vector<float> exact = run(Dtype::kFloat32).rows<float>();
  const std::vector<uint16_t> narrow = run(Dtype::kBfloat16).rows<uint16_t>();
  const std::vector<double> wide = run(Dtype::kFloat64).rows<double>();
  EXPECT_EQUAL(exact.size(), static_cast<size_t>(batch.positions));
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_EQUAL(narrow[i], to_bfloat16(exact[i]));
    EXPECT_EQUAL(wide[i], double{exact[i]});
  }
}

TEST(fused_run_names_the_first_gradient_that_is_not_finite_as_stored) {
  Builder b;
  const size_t x = b.input(Axis::kToken);
  const Program program = b.build(b.sum(x, Axis::kBatch), b.op("neg", {x}));
  const Batch batch({40000, 5, 700, 3});
  std::vector<float> x_values(static_cast<size_t>(batch.tokens), 1.0f);
  const auto run = [&](Dtype dtype) {
    return run_fused_program(program, batch, {data_of(x_values)}, dtype).computed;
  };
  EXPECT(!run(Dtype::kFloat32).non_finite_token);
  x_values[40600] = std::nanf("");
  x_values[40500] = static_cast<float>(-kInfinity);
  x_values[33333] = 3.4e38f;
  EXPECT_EQUAL(run(Dtype::kFloat32).non_finite_token.value(), 40500);
  EXPECT_EQUAL(run(Dtype::kFloat32).non_finite_value, kInfinity);
  EXPECT_EQUAL(run(Dtype::kBfloat16).non_finite_token.value(), 33333);
  EXPECT_EQUAL(run(Dtype::kBfloat16).non_finite_value, double{-3.4e38f});
}

TEST(fused_plan_names_the_ops_that_have_no_kernel) {
  Builder b;
  const size_t x = b.input(Axis::kToken);
  const size_t tan = b.op("tan", {b.op("tan", {b.op("exp", {x})})});
  const fused::Plan plan(b.build(b.sum(tan, Axis::kBatch), x));
  EXPECT((plan.lacking() == std::vector<std::string>{"tan"}));
  EXPECT(fused::Plan(clipped_policy_gradient()).lacking().empty());
}

TEST(fused_plan_lacks_ops_that_are_used_unlike_their_kernel) {
  const auto lacks = [](const NodeSpec& node) {
    Builder b;
    const size_t x = b.input(Axis::kToken);
    const size_t loss = b.sum(x, Axis::kBatch);
    return !fused::Plan(b.build(loss, b.node(node))).lacking().empty();
  };
  const auto spec = [](const char* name, const char* aten, size_t operands,
                       Attributes attributes = {}) {
    return NodeSpec{
        name,         aten,         std::vector<size_t>(operands, 0), std::move(attributes),
        Axis::kToken, Kind::kNumber};
  };
  EXPECT(!lacks(spec("exp", "exp", 1)));
  EXPECT(!lacks(spec("where", "where.self", 3)));
  EXPECT(!lacks(spec("pow", "pow.Tensor_Scalar", 1, {{"exponent", 2}})));
  EXPECT(lacks(spec("exp", "add.Tensor", 2)));
  EXPECT(lacks(spec("where", "_nested_view_from_buffer_copy", 4)));
  EXPECT(lacks(spec("add", "neg", 1)));
  EXPECT(lacks(spec("add", "add.Tensor", 2, {{"alpha", 2}})));
  EXPECT(lacks(spec("pow", "exp", 1)));
  EXPECT(lacks(spec("pow", "clamp", 1, {{"min", 0}})));
}

TEST(fused_plan_drops_what_nobody_needs) {
  Builder b;
  const size_t x = b.input(Axis::kToken);
  b.structural("cumsum", {b.op("exp", {x})}, Axis::kToken,
               {{"reverse", 0}, {"exclusive", 0}, {"discount", 1}});
  b.sum(b.op("log", {x}), Axis::kSample);
  const size_t unused_elements = b.op("exp", {x});
  const size_t count = b.structural("count", {unused_elements}, Axis::kBatch);
  const fused::Plan plan(b.build(count, x));
  EXPECT_EQUAL(plan.passes().size(), size_t{1});
  EXPECT_EQUAL(plan.passes()[0].steps.size(), size_t{1});
}

TEST(fused_run_passes_on_what_array_ops_refuse) {
  Builder b;
  const size_t sums = b.sum(b.input(Axis::kToken), Axis::kSample);
  const size_t second = b.structural("members", {}, Axis::kGroup, {{"index", 1}});
  const Program small = b.build_outputs({b.structural("gather", {sums, second}, Axis::kGroup)});
  const std::vector<float> values(3, 1.0f);
  EXPECT_CODE("ERR_GROUP_SIZE",
              run_fused_program(small, Batch({1, 1, 1}, {2, 1}), {data_of(values)}));

  Builder odd;
  const size_t index = odd.sum(odd.input(Axis::kToken), Axis::kSample);
  const Program outside =
      odd.build_outputs({odd.structural("gather", {index, index}, Axis::kSample)});
  const std::vector<float> indices{1, 3, 0};
  EXPECT_CODE("ERR_INDEX", run_fused_program(outside, Batch({1, 1, 1}), {data_of(indices)}));
}

TEST(fused_run_stops_when_it_is_cancelled) {
  const Batch batch({100, 20});
  const PolicyInputs inputs(batch);
  const Program program = clipped_policy_gradient();
  const Layout layout(batch.spec(), at::kCPU);
  std::vector<std::byte> out(static_cast<size_t>(batch.positions) * 4);
  const Request request{.layout = batch.spec(),
                        .inputs = inputs.data(),
                        .precision = at::kFloat,
                        .output = out,
                        .dtype = Dtype::kFloat32};
  CancelFlag cancel;
  cancel.set();
  EXPECT_CODE("ERR_ABORTED", run_fused(fused::Plan(program), layout, request, cancel));
  EXPECT(out == std::vector<std::byte>(out.size()));
}

}  // namespace
}  // namespace tokengrad::test
