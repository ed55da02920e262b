// Tests of whole runs: both executors of libtorch against each other, outputs, requests that do not
// fit, cancelling.
#include "core/executor.h"

#include <ATen/record_function.h>

#include <future>

#include "core/worker.h"
#include "test/programs.h"

namespace tokengrad {
namespace {

using test::Batch;
using test::Builder;
using test::kNever;
using Doubles = std::vector<double>;

/// mean over samples of (sum over tokens of exp(x) * advantage) / (number of tokens, at least 1),
/// and its gradient; the metric is the sum of x.
struct Weighted {
  Builder builder;
  size_t logprobs = builder.input(Axis::kToken);
  size_t advantages = builder.input(Axis::kSample);
  size_t exps = builder.aten("exp", {logprobs});
  size_t spread = builder.op("spread", {advantages}, Axis::kToken);
  size_t product = builder.aten("mul.Tensor", {exps, spread});
  size_t sums = builder.op("sum", {product}, Axis::kSample);
  size_t one = builder.op("spread", {builder.constant(1)}, Axis::kSample);
  size_t counts = builder.aten("maximum", {builder.op("count", {logprobs}, Axis::kSample), one});
  size_t means = builder.aten("div.Tensor", {sums, counts});
  size_t samples = builder.op("count", {means}, Axis::kBatch);
  size_t loss = builder.aten("div.Tensor", {builder.sum(means), samples});
  size_t metric = builder.sum(logprobs);
  size_t gradient = differentiate();

  size_t differentiate() {
    builder.end_forward();
    const size_t of_sample = builder.op(
        "spread", {builder.aten("div.Tensor", {builder.constant(1), samples})}, Axis::kSample);
    const size_t of_sum = builder.op("unscale", {of_sample, counts}, Axis::kSample);
    const size_t of_product = builder.op("spread", {of_sum}, Axis::kToken);
    const size_t of_exp = builder.op("scale", {of_product, spread}, Axis::kToken);
    return builder.op("scale", {of_exp, exps}, Axis::kToken);
  }
  ProgramSpec spec(std::vector<size_t> outputs = {}) const {
    return builder.spec(loss, gradient, {metric}, std::move(outputs));
  }
};

TEST(run_gives_the_loss_its_gradient_and_metrics_by_every_executor) {
  const auto check = [](auto batch, test::Run executor) {
    const Program program(Weighted().spec());
    batch.others = {{1, 10, 100}};
    const Computed computed = test::run(executor, program, batch);
    const auto exp = [](double x) { return std::exp(x); };
    const double loss = ((exp(-1) + exp(-2)) / 2 + 100 * (exp(-3) + exp(-4) + exp(-5)) / 3) / 3;
    EXPECT_NEAR((Doubles{computed.result.loss}), Doubles{loss}, 1e-6);
    EXPECT_EQUAL(computed.result.metrics.at(0), -15.0);
    EXPECT(!computed.non_finite_token);
    EXPECT_NEAR(batch.out,
                (Doubles{0, exp(-1) / 6, exp(-2) / 6, 0, 0, 100 * exp(-3) / 9, 100 * exp(-4) / 9,
                         100 * exp(-5) / 9}),
                1e-6);
  };
  for (const test::Run executor : {run_torch, run_autograd}) {
    check(Batch<float>(), executor);
    check(Batch<double>(), executor);
  }
}

/// sum of w * y for y = an op of x, and its gradient by the op's transpose.
template <typename Op, typename Transposed>
void check_transposed(const Op& op, const Transposed& transposed) {
  Builder builder;
  const size_t x = builder.input(Axis::kToken);
  const size_t w = builder.aten("square", {builder.aten("detach", {x})});
  const size_t loss = builder.sum(builder.aten("mul.Tensor", {op(builder, x), w}));
  builder.end_forward();
  const Program program(builder.spec(loss, transposed(builder, w)));
  Batch<double> joint;
  Batch<double> recorded;
  const double loss_of_joint = test::run(run_torch, program, joint).result.loss;
  EXPECT_NEAR((Doubles{test::run(run_autograd, program, recorded).result.loss}),
              Doubles{loss_of_joint}, 1e-14);
  EXPECT_NEAR(recorded.out, joint.out, 1e-13);
}

TEST(run_differentiates_array_ops_by_their_transposes) {
  const auto cumsum = [](double reverse) {
    return [reverse](Builder& b, size_t x) {
      return b.op("cumsum", {x}, Axis::kToken,
                  {{"reverse", reverse}, {"exclusive", 1}, {"discount", 0.75}});
    };
  };
  check_transposed(cumsum(0), cumsum(1));
  const auto shift = [](double offset) {
    return [offset](Builder& b, size_t x) {
      return b.op("shift", {x}, Axis::kToken, {{"offset", offset}});
    };
  };
  check_transposed(shift(1), shift(-1));
  // The first sample of each group, for all of the group's tokens.
  const auto first = [](Builder& b) { return b.op("members", {}, Axis::kGroup, {{"index", 0}}); };
  check_transposed(
      [&](Builder& b, size_t x) {
        const size_t sums = b.op("sum", {x}, Axis::kSample);
        return b.op("spread", {b.op("gather", {sums, first(b)}, Axis::kGroup)}, Axis::kToken);
      },
      [&](Builder& b, size_t w) {
        const size_t sums = b.op("sum", {w}, Axis::kGroup);
        return b.op("spread", {b.op("scatter", {sums, first(b)}, Axis::kSample)}, Axis::kToken);
      });
}

TEST(run_shares_the_gradient_of_an_extreme_among_all_ties) {
  Builder builder;
  const size_t largest = builder.op("max", {builder.input(Axis::kToken)}, Axis::kBatch);
  const Program program = builder.loss(largest);
  Batch<float> batch;
  batch.logprobs = {-1, -2, -1, -1, -5};
  EXPECT_EQUAL(test::run(run_autograd, program, batch).result.loss, -1.0);
  EXPECT_NEAR(batch.out, (Doubles{0, 1.0 / 3, 0, 0, 0, 1.0 / 3, 1.0 / 3, 0}), 1e-6);
}

TEST(run_gives_zeros_where_the_loss_ignores_the_variable) {
  Builder builder;
  builder.input(Axis::kToken);
  const size_t loss = builder.constant(3);
  const Program program(builder.spec(loss, builder.token(0)));
  for (const test::Run executor : {run_torch, run_autograd}) {
    Batch<float> batch;
    EXPECT_EQUAL(test::run(executor, program, batch).result.loss, 3.0);
    EXPECT(batch.out == std::vector<float>(8, 0.0f));
  }
}

TEST(run_gives_outputs_of_every_axis_and_kind) {
  Weighted weighted;
  const size_t mask =
      weighted.builder.aten("gt.Tensor", {weighted.logprobs, weighted.builder.token(-3)});
  const Program program(weighted.spec(
      {weighted.sums, weighted.loss, mask, weighted.gradient, weighted.logprobs, weighted.spread}));
  Batch<float> batch;
  batch.others = {{1, 10, 100}};
  const double loss = test::run(run_torch, program, batch).result.loss;
  EXPECT_NEAR(
      batch.outputs[0],
      (Doubles{std::exp(-1) + std::exp(-2), 0, 100 * (std::exp(-3) + std::exp(-4) + std::exp(-5))}),
      1e-6);
  EXPECT_EQUAL(batch.outputs[1].at(0), loss);
  EXPECT_NEAR(batch.outputs[2], (Doubles{1, 1, 0, 0, 0}), 0);
  EXPECT_NEAR(batch.outputs[3],
              (Doubles{batch.out[1], batch.out[2], batch.out[5], batch.out[6], batch.out[7]}), 0);
  EXPECT_NEAR(batch.outputs[4], batch.logprobs, 0);
  EXPECT_NEAR(batch.outputs[5], (Doubles{1, 1, 100, 100, 100}), 0);
  EXPECT_CODE("ERR_REQUEST", test::run(run_autograd, program, batch));

  const Program of_loss(weighted.spec({weighted.sums}));
  test::run(run_autograd, of_loss, batch);
  EXPECT_NEAR((Doubles{batch.outputs[0][0]}), (Doubles{std::exp(-1) + std::exp(-2)}), 1e-6);
}

TEST(run_refuses_requests_that_do_not_fit) {
  Weighted weighted;
  const Compiled compiled(weighted.spec({weighted.sums}));
  const auto code_of = [&](void (*spoil)(Request&)) {
    std::string codes;
    for (const Executor executor : {Executor::kFused, Executor::kTorch, Executor::kAutograd}) {
      Batch<float> batch;
      batch.others = {{1, 10, 100}};
      batch.prepare(compiled.program);
      Request request = batch.request();
      spoil(request);
      codes += test::code_of([&] { run_program(compiled, request, executor, at::kCPU, kNever); });
    }
    return codes;
  };
  const std::string refused = "ERR_REQUESTERR_REQUESTERR_REQUEST";
  EXPECT_EQUAL(code_of([](Request&) {}), std::string());
  EXPECT_EQUAL(code_of([](Request& request) { request.inputs.clear(); }), refused);
  EXPECT_EQUAL(code_of([](Request& request) { request.inputs.push_back(request.inputs[0]); }),
               refused);
  EXPECT_EQUAL(code_of([](Request& request) { request.inputs[0].size = 4; }), refused);
  EXPECT_EQUAL(code_of([](Request& request) { request.inputs[0].dtype = at::kDouble; }), refused);
  EXPECT_EQUAL(code_of([](Request& request) { request.precision = at::kDouble; }), refused);
  EXPECT_EQUAL(code_of([](Request& request) { request.dtype = Dtype::kFloat64; }), refused);
  EXPECT_EQUAL(code_of([](Request& request) { request.output = request.output.first(31); }),
               refused);
  EXPECT_EQUAL(code_of([](Request& request) { request.outputs.clear(); }), refused);
  EXPECT_EQUAL(code_of([](Request& request) { request.outputs.push_back(request.outputs[0]); }),
               refused);
  EXPECT_EQUAL(code_of([](Request& request) { request.outputs[0] = request.outputs[0].first(2); }),
               refused);
}

TEST(run_refuses_what_the_fused_executor_cannot_run) {
  const auto problem_of = [](const ProgramSpec& spec, auto batch, at::Device device) {
    const Compiled compiled(spec);
    batch.others = {{1, 10, 100}};
    batch.prepare(compiled.program);
    try {
      run_program(compiled, batch.request(), Executor::kFused, device, kNever);
    } catch (const Error& error) {
      return error.code() + ": " + error.what();
    }
    return std::string();
  };
  const Weighted weighted;
  EXPECT_EQUAL(problem_of(weighted.spec(), Batch<float>(), at::kCPU), std::string());
  EXPECT_EQUAL(
      problem_of(weighted.spec(), Batch<double>(), at::kCPU),
      std::string("ERR_REQUEST: executor: fused computes in Float, got a precision of Double"));
  EXPECT_EQUAL(problem_of(weighted.spec(), Batch<float>(), at::kCUDA),
               std::string("ERR_REQUEST: executor: fused computes on the CPU, got cuda"));
  Weighted odd;
  odd.builder.aten("tan", {odd.logprobs});
  odd.builder.aten("cos", {odd.logprobs});
  EXPECT_EQUAL(problem_of(odd.spec(), Batch<float>(), at::kCPU),
               std::string("ERR_REQUEST: executor: fused lacks tan, cos"));
}

TEST(metrics_may_be_infinite) {
  Builder builder;
  const size_t logprobs = builder.input(Axis::kToken);
  const size_t largest = builder.op("max", {logprobs}, Axis::kSample);
  const size_t metric = builder.op("min", {largest}, Axis::kBatch);
  const Compiled compiled(builder.spec(builder.sum(logprobs), logprobs, {metric}));
  Batch<float> batch;
  const RunResult result =
      run_program(compiled, batch.request(), Executor::kTorch, at::kCPU, kNever);
  EXPECT_EQUAL(result.metrics.at(0), -std::numeric_limits<double>::infinity());
}

/// Sets a flag at the third op of a name, and counts those that begin after it.
struct Trap {
  static inline Trap* active = nullptr;
  std::string name;
  test::Run executor;
  CancelFlag flag{};
  int seen = 0;

  int springs_in(const Program& program) {
    active = this;
    const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(
        [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
          if (function.name() == active->name && ++active->seen == 3) active->flag.set();
          return nullptr;
        }));
    Batch<float> batch;
    const Layout layout(batch.layout(), at::kCPU);
    EXPECT_CODE("ERR_ABORTED", executor(program, layout, batch.request(), at::kCPU, flag));
    at::removeCallback(handle);
    return seen;
  }
};

TEST(run_stops_before_the_first_op_and_at_the_next_one_in_both_passes) {
  Builder builder;
  size_t node = builder.input(Axis::kToken);
  for (int i = 0; i < 20; ++i) node = builder.aten("sigmoid", {node});
  const Program program = builder.loss(builder.sum(node));
  for (const test::Run executor : {run_torch, run_autograd}) {
    Trap before{"aten::sigmoid", executor};
    before.flag.set();
    EXPECT_EQUAL(before.springs_in(program), 0);
    EXPECT_EQUAL((Trap{"aten::sigmoid", executor}.springs_in(program)), 3);
  }
  EXPECT_EQUAL((Trap{"SigmoidBackward0", run_autograd}.springs_in(program)), 3);
}

TEST(run_gives_the_same_bits_on_any_number_of_threads) {
  const Compiled compiled(Weighted().spec());
  constexpr uint32_t kSamples = 64;
  constexpr uint32_t kLength = 4096;
  Batch<float> batch;
  batch.row_lengths.assign(kSamples, kLength);
  batch.run_counts.assign(kSamples, 1);
  batch.group_sizes.assign(kSamples / 2, 2);
  batch.others = {Doubles(kSamples, 0.5)};
  batch.runs.clear();
  batch.logprobs.clear();
  for (uint32_t s = 0; s < kSamples; ++s) {
    batch.runs.insert(batch.runs.end(), {s, kLength - s});
    for (uint32_t t = s; t < kLength; ++t)
      batch.logprobs.push_back(-static_cast<float>((t * 2654435761u) % 9973) / 997);
  }
  const auto result_on = [&](int threads) {
    batch.prepare(compiled.program);
    Worker worker(threads);
    std::promise<double> loss;
    auto job = std::make_shared<Job>();
    job->work = [&](const CancelFlag& cancel) {
      loss.set_value(
          run_program(compiled, batch.request(), Executor::kTorch, at::kCPU, cancel).loss);
    };
    worker.submit(job);
    const double value = loss.get_future().get();
    return std::pair(value, batch.out);
  };
  const auto one = result_on(1);
  for (const int threads : {2, 3}) EXPECT(result_on(threads) == one);
}

}  // namespace
}  // namespace tokengrad
