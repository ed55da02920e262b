// Tests of whole runs: losses and gradients, faults and where they began, cancelling.
#include "core/executor.h"

#include <ATen/record_function.h>

#include <future>
#include <limits>

#include "core/worker.h"
#include "test/check.h"

namespace tokengrad {
namespace {

using test::fact;

/// Builds a program a node at a time.
class Builder {
 public:
  size_t input(Axis axis) {
    spec_.inputs.push_back(spec_.nodes.size());
    return add({"input", "", {}, {}, axis, Kind::kNumber});
  }
  size_t constant(double value) {
    return add({"constant", "", {}, {{"value", value}}, Axis::kBatch, Kind::kNumber});
  }
  size_t op(const std::string& name, size_t input, Axis axis, Attributes attributes = {}) {
    return add({name, "", {input}, std::move(attributes), axis, Kind::kNumber});
  }
  size_t aten(const std::string& name, std::vector<size_t> inputs, Kind kind = Kind::kNumber) {
    const Axis axis = spec_.nodes[inputs[0]].axis;
    return add({"op", name, std::move(inputs), {}, axis, kind});
  }
  Program loss(size_t node, std::vector<size_t> metrics = {}) {
    spec_.loss = node;
    spec_.metrics = std::move(metrics);
    spec_.variable = 0;
    return Program(spec_);
  }

 private:
  size_t add(NodeSpec node) {
    spec_.nodes.push_back(std::move(node));
    return spec_.nodes.size() - 1;
  }
  ProgramSpec spec_;
};

/// Three samples in two groups: 2 of 3 positions trained, none of 2, 3 of 3.
template <typename T>
struct Batch {
  std::vector<uint32_t> row_lengths{3, 2, 3};
  std::vector<uint32_t> run_counts{1, 0, 1};
  std::vector<uint32_t> runs{1, 2, 0, 3};
  std::vector<uint32_t> group_sizes{2, 1};
  std::vector<T> logprobs{-1, -2, -3, -4, -5};
  std::vector<double> advantages{1, 10, 100};
  std::vector<T> out = std::vector<T>(8, T{77});

  Request request(bool with_advantages = false) {
    constexpr bool wide = std::is_same_v<T, double>;
    Request request{.layout = {row_lengths, run_counts, runs, group_sizes},
                    .inputs = {{logprobs.data(), 5, wide ? at::kDouble : at::kFloat}},
                    .precision = wide ? at::kDouble : at::kFloat,
                    .output = std::as_writable_bytes(std::span(out)),
                    .dtype = wide ? Dtype::kFloat64 : Dtype::kFloat32};
    if (with_advantages) request.inputs.push_back({advantages.data(), 3, at::kDouble});
    return request;
  }
};

const CancelFlag kNever;

TEST(run_means_per_sample_count_empty_samples_as_zero) {
  Builder builder;
  const size_t logprobs = builder.input(Axis::kToken);
  const size_t advantages = builder.input(Axis::kSample);
  const size_t product =
      builder.aten("mul.Tensor", {logprobs, builder.op("spread", advantages, Axis::kToken)});
  const size_t means = builder.op("mean", product, Axis::kSample);
  const size_t loss = builder.op("mean", means, Axis::kBatch);
  const Program program = builder.loss(loss, {builder.op("sum", logprobs, Axis::kBatch)});

  const auto check = [&program](auto batch) {
    const RunResult result = run_program(program, batch.request(true), at::kCPU, kNever);
    EXPECT(std::abs(result.loss - (-1.5 - 400.0) / 3) < 1e-4);
    EXPECT_EQUAL(result.metrics.at(0), -15.0);
    const std::vector<double> expected{0, 1.0 / 6, 1.0 / 6, 0, 0, 100.0 / 9, 100.0 / 9, 100.0 / 9};
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT(std::abs(batch.out[i] - expected[i]) < 1e-5);
  };
  check(Batch<float>());
  check(Batch<double>());
}

TEST(run_gives_zeros_where_the_loss_ignores_the_variable) {
  Builder builder;
  builder.input(Axis::kToken);
  const Program program = builder.loss(builder.constant(3));
  Batch<float> batch;
  EXPECT_EQUAL(run_program(program, batch.request(), at::kCPU, kNever).loss, 3.0);
  EXPECT(batch.out == std::vector<float>(8, 0.0f));
}

TEST(run_refuses_inputs_that_do_not_fit) {
  Builder builder;
  const Program program =
      builder.loss(builder.op("sum", builder.input(Axis::kToken), Axis::kBatch));
  const auto refuses = [&program](void (*spoil)(Request&)) {
    Batch<float> batch;
    Request request = batch.request();
    spoil(request);
    return test::code_of([&] { run_program(program, request, at::kCPU, kNever); }) == "ERR_REQUEST";
  };
  EXPECT(refuses([](Request& request) { request.inputs.clear(); }));
  EXPECT(refuses([](Request& request) { request.inputs.push_back(request.inputs[0]); }));
  EXPECT(refuses([](Request& request) { request.inputs[0].size = 4; }));
  EXPECT(refuses([](Request& request) { request.inputs[0].dtype = at::kDouble; }));
  EXPECT(refuses([](Request& request) { request.precision = at::kDouble; }));
  EXPECT(refuses([](Request& request) { request.dtype = Dtype::kFloat64; }));
  EXPECT(refuses([](Request& request) { request.output = request.output.first(31); }));
}

TEST(run_refuses_an_operator_that_changes_the_shape_or_the_type) {
  for (const char* name : {"sum", "gt.Tensor", "nonzero"}) {
    Builder builder;
    const size_t logprobs = builder.input(Axis::kToken);
    const bool two = std::string(name) == "gt.Tensor";
    const size_t odd =
        builder.aten(name, two ? std::vector{logprobs, logprobs} : std::vector{logprobs});
    const Program program = builder.loss(builder.op("sum", odd, Axis::kBatch));
    Batch<float> batch;
    EXPECT_CODE("ERR_PROGRAM", run_program(program, batch.request(), at::kCPU, kNever));
  }
}

TEST(run_names_the_group_that_is_too_small_for_member) {
  Builder builder;
  const size_t sums = builder.op("sum", builder.input(Axis::kToken), Axis::kSample);
  const size_t second = builder.op("member", sums, Axis::kGroup, {{"index", 1}});
  const Program program = builder.loss(builder.op("sum", second, Axis::kBatch));
  Batch<float> batch;
  try {
    run_program(program, batch.request(), at::kCPU, kNever);
  } catch (const Error& error) {
    EXPECT_EQUAL(error.code(), std::string("ERR_GROUP_SIZE"));
    EXPECT_EQUAL(fact<double>(error, "group", -1), 1);
    EXPECT_EQUAL(fact<double>(error, "size", -1), 1);
    return;
  }
  EXPECT(false);
}

/// What a run that is not finite reports.
template <typename T>
Error fault_of(const Program& program, Batch<T>& batch, Dtype dtype) {
  Request request = batch.request();
  request.dtype = dtype;
  request.output = request.output.first(8 * bytes_of(dtype));
  try {
    run_program(program, request, at::kCPU, kNever);
  } catch (const Error& error) {
    EXPECT_EQUAL(error.code(), std::string("ERR_NON_FINITE"));
    return error;
  }
  test::fail(__FILE__, __LINE__, "expected a fault");
}

TEST(fault_begins_at_the_first_op_whose_operands_are_finite) {
  Builder builder;
  const size_t logprobs = builder.input(Axis::kToken);
  const size_t huge = builder.aten(
      "mul.Tensor", {logprobs, builder.op("spread", builder.constant(-100), Axis::kToken)});
  const size_t exps = builder.aten("exp", {huge});
  const size_t differences = builder.aten("sub.Tensor", {exps, exps});
  const Program program = builder.loss(builder.op("sum", differences, Axis::kBatch));
  Batch<float> batch;
  batch.logprobs = {-0.1f, -0.2f, -0.3f, -4.0f, -5.0f};
  const Error error = fault_of(program, batch, Dtype::kFloat32);
  EXPECT_EQUAL(fact<double>(error, "node", -1), static_cast<double>(exps));
  EXPECT_EQUAL(fact<double>(error, "sample", -1), 2);
  EXPECT_EQUAL(fact<double>(error, "position", -1), 1);
  EXPECT(std::isinf(fact<double>(error, "value", 0)));
  EXPECT(fact<std::vector<double>>(error, "operands", {}) == std::vector<double>{400});
}

TEST(fault_in_an_input_is_reported_as_that_input) {
  Builder builder;
  const size_t logprobs = builder.input(Axis::kToken);
  const Program program = builder.loss(builder.op("sum", logprobs, Axis::kBatch));
  Batch<double> batch;
  batch.logprobs[1] = std::nan("");
  const Error error = fault_of(program, batch, Dtype::kFloat64);
  EXPECT_EQUAL(fact<double>(error, "node", -1), static_cast<double>(logprobs));
  EXPECT_EQUAL(fact<double>(error, "sample", -1), 0);
  EXPECT_EQUAL(fact<double>(error, "position", -1), 2);
}

TEST(fault_of_a_reduction_names_its_segment) {
  Builder builder;
  const size_t largest = builder.op("max", builder.input(Axis::kToken), Axis::kSample);
  const Program program = builder.loss(builder.op("sum", largest, Axis::kBatch));
  Batch<float> batch;
  const Error error = fault_of(program, batch, Dtype::kFloat32);  // sample 1 has no token
  EXPECT_EQUAL(fact<double>(error, "node", -1), static_cast<double>(largest));
  EXPECT_EQUAL(fact<double>(error, "sample", -1), 1);
}

TEST(fault_of_an_infinite_constant_is_the_op_that_lets_it_through) {
  Builder builder;
  const size_t logprobs = builder.input(Axis::kToken);
  const size_t infinity =
      builder.op("spread", builder.constant(std::numeric_limits<double>::infinity()), Axis::kToken);
  const size_t bounded = builder.aten("minimum", {logprobs, infinity});  // harmless
  const size_t added = builder.aten("add.Tensor", {bounded, infinity});
  const Program program = builder.loss(builder.op("sum", added, Axis::kBatch));
  Batch<float> batch;
  EXPECT_EQUAL(fact<double>(fault_of(program, batch, Dtype::kFloat32), "node", -1),
               static_cast<double>(added));
}

TEST(fault_of_the_backward_pass_alone_names_the_token) {
  // sqrt has an infinite slope at 0, where its value is finite.
  Builder builder;
  const size_t roots = builder.aten("sqrt", {builder.input(Axis::kToken)});
  const Program program = builder.loss(builder.op("sum", roots, Axis::kBatch));
  Batch<float> batch;
  batch.logprobs = {1, 1, 1, 0, 1};
  const Error error = fault_of(program, batch, Dtype::kFloat32);
  EXPECT_EQUAL(fact<double>(error, "node", -1), -1);
  EXPECT_EQUAL(fact<double>(error, "sample", -1), 2);
  EXPECT_EQUAL(fact<double>(error, "position", -1), 1);
}

TEST(fault_of_a_gradient_is_looked_for_at_its_own_token_only) {
  // exp overflows harmlessly at one token, whose branch is not taken and whose gradient is cut off;
  // another one's gradient is infinite.
  Builder builder;
  const size_t logprobs = builder.input(Axis::kToken);
  const size_t zero = builder.op("spread", builder.constant(0), Axis::kToken);
  const size_t exps = builder.aten("exp", {builder.aten("detach", {logprobs})});
  const size_t positive = builder.aten("gt.Tensor", {logprobs, zero}, Kind::kMask);
  const size_t chosen = builder.aten("where.self", {positive, zero, exps});
  const size_t roots = builder.aten("sqrt", {builder.aten("abs", {logprobs})});
  const Program program =
      builder.loss(builder.op("sum", builder.aten("add.Tensor", {chosen, roots}), Axis::kBatch));
  Batch<float> batch;
  batch.logprobs = {400, 1, 1, 0, 1};
  const Error error = fault_of(program, batch, Dtype::kFloat32);
  EXPECT_EQUAL(fact<double>(error, "node", -1), -1);
  EXPECT_EQUAL(fact<double>(error, "sample", -1), 2);
  EXPECT_EQUAL(fact<double>(error, "position", -1), 1);
}

TEST(fault_of_a_gradient_that_is_too_large_for_its_type) {
  const auto scaled = [](const char* reduction) {
    Builder builder;
    const size_t logprobs = builder.input(Axis::kToken);
    const size_t factor = builder.op("spread", builder.constant(3.4e38), Axis::kToken);
    const size_t product = builder.aten("mul.Tensor", {logprobs, factor});
    return builder.loss(builder.op(reduction, product, Axis::kBatch));
  };
  Batch<double> batch;
  batch.logprobs = {0, 0, 0, 0, 0};
  const Error error = fault_of(scaled("sum"), batch, Dtype::kBfloat16);
  EXPECT_EQUAL(fact<double>(error, "value", 0), 3.4e38);
  EXPECT_EQUAL(fact<double>(error, "position", -1), 1);
  // A fifth of it fits.
  Request request = batch.request();
  request.dtype = Dtype::kBfloat16;
  request.output = request.output.first(16);
  run_program(scaled("mean"), request, at::kCPU, kNever);
}

TEST(metrics_may_be_infinite) {
  Builder builder;
  const size_t logprobs = builder.input(Axis::kToken);
  const size_t infinite = builder.op("max", logprobs, Axis::kSample);
  const Program program = builder.loss(builder.op("sum", logprobs, Axis::kBatch),
                                       {builder.op("min", infinite, Axis::kBatch)});
  Batch<float> batch;
  const RunResult result = run_program(program, batch.request(), at::kCPU, kNever);
  EXPECT_EQUAL(result.metrics.at(0), -std::numeric_limits<double>::infinity());
}

/// Sets a flag at the third op of a name, and counts those that begin after it.
struct Trap {
  static inline Trap* active = nullptr;
  std::string name;
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
    EXPECT_CODE("ERR_ABORTED", run_program(program, batch.request(), at::kCPU, flag));
    at::removeCallback(handle);
    return seen;
  }
};

TEST(run_stops_before_the_first_op_and_at_the_next_one_in_both_passes) {
  Builder builder;
  size_t node = builder.input(Axis::kToken);
  for (int i = 0; i < 20; ++i) node = builder.aten("sigmoid", {node});
  const Program program = builder.loss(builder.op("mean", node, Axis::kBatch));
  Trap before{"aten::sigmoid"};
  before.flag.set();
  EXPECT_EQUAL(before.springs_in(program), 0);
  EXPECT_EQUAL(Trap{"aten::sigmoid"}.springs_in(program), 3);
  EXPECT_EQUAL(Trap{"SigmoidBackward0"}.springs_in(program), 3);
}

TEST(run_gives_the_same_bits_on_any_number_of_threads) {
  Builder builder;
  const size_t exps = builder.aten("exp", {builder.input(Axis::kToken)});
  const Program program =
      builder.loss(builder.op("logsumexp", builder.op("mean", exps, Axis::kSample), Axis::kBatch));
  const uint32_t samples = 64;
  const uint32_t length = 4096;
  const std::vector<uint32_t> lengths(samples, length);
  const std::vector<uint32_t> counts(samples, 1);
  std::vector<uint32_t> runs;
  for (uint32_t s = 0; s < samples; ++s) runs.insert(runs.end(), {s, length - s});
  const std::vector<uint32_t> groups(samples / 2, 2);
  std::vector<float> logprobs;
  for (uint32_t s = 0; s < samples; ++s) {
    for (uint32_t t = s; t < length; ++t)
      logprobs.push_back(-static_cast<float>((t * 2654435761u) % 9973) / 997);
  }
  const auto result_on = [&](int threads) {
    std::vector<float> out(samples * length);
    const Request request{
        .layout = {lengths, counts, runs, groups},
        .inputs = {{logprobs.data(), static_cast<int64_t>(logprobs.size()), at::kFloat}},
        .precision = at::kFloat,
        .output = std::as_writable_bytes(std::span(out)),
        .dtype = Dtype::kFloat32};
    Worker worker(threads);
    std::promise<double> loss;
    auto job = std::make_shared<Job>();
    job->work = [&](const CancelFlag& cancel) {
      loss.set_value(run_program(program, request, at::kCPU, cancel).loss);
    };
    worker.submit(job);
    const double value = loss.get_future().get();
    return std::pair(value, out);
  };
  const auto one = result_on(1);
  for (const int threads : {2, 3}) EXPECT(result_on(threads) == one);
}

}  // namespace
}  // namespace tokengrad
