// Tests that a fused run gives the same bits on any number of threads, on any kind of CPU, and
// whatever other samples are in the batch.
#include <ATen/Parallel.h>

#include <cmath>

#include "core/fused/units.h"
#include "test/check.h"
#include "test/fused_program.h"

namespace tokengrad::test {
namespace {

/// Sums, extremes, several passes, ops that need all tokens, and most of the math, of tokens and of
/// samples.
Program everything() {
  Builder b;
  const size_t x = b.input(Axis::kToken);
  const size_t largest = b.spread(b.structural("max", {x}, Axis::kSample), Axis::kToken);
  const size_t exps = b.op("exp", {b.op("sub", {x, largest})});
  const size_t sums = b.sum(exps, Axis::kSample);
  const size_t shares = b.op("div", {exps, b.spread(sums, Axis::kToken)});
  const size_t running = b.structural("cumsum", {shares}, Axis::kToken,
                                      {{"reverse", 1}, {"exclusive", 0}, {"discount", 0.9}});
  const auto mix = [&b](size_t node) {
    for (const char* name : {"tanh", "logSigmoid", "expm1", "abs", "log1p", "erf", "exp"})
      node = b.op(name, {node});
    return node;
  };
  const size_t mixed = mix(b.op("add", {running, b.op("sigmoid", {x})}));
  const size_t means = b.sum(mixed, Axis::kSample);
  const size_t of_samples = mix(b.op("pow", {means}, {{"exponent", -0.7}}));
  const size_t smallest = b.structural("min", {mixed}, Axis::kSample);
  const size_t powers = b.op("pow", {b.op("abs", {x})}, {{"exponent", 0.3}});
  const size_t loss = b.sum(means, Axis::kBatch);
  const size_t gradient = b.op("mul", {b.op("add", {mixed, powers}), b.spread(loss, Axis::kToken)});
  return b.build(loss, gradient, {}, {sums, means, smallest, of_samples, mixed});
}

bool has_same_bits(const Answer& one, const Answer& other) {
  return one.computed.result.loss == other.computed.result.loss && one.gradient == other.gradient &&
         one.outputs == other.outputs;
}

/// With samples of several units, and units of several blocks.
Batch long_batch() { return Batch({5, 50001, 0, 16384, 16385, 700, 32768, 33}); }

TEST(fused_run_cuts_long_samples) {
  const Batch batch = long_batch();
  const Layout layout(batch.spec(), at::kCPU);
  const std::vector<fused::Unit> units = fused::make_units(layout);
  EXPECT_EQUAL(units.size(), size_t{1 + 4 + 1 + 1 + 2 + 1 + 2 + 1});
  int64_t token = 0;
  for (const fused::Unit& unit : units) {
    EXPECT_EQUAL(unit.begin, token);
    EXPECT(unit.end - unit.begin <= fused::kUnitTokens);
    EXPECT_EQUAL(unit.is_last, unit.end == layout.rows()[unit.sample + 1].token);
    token = unit.end;
  }
  EXPECT_EQUAL(token, batch.tokens);
}

TEST(fused_run_has_the_same_bits_on_any_number_of_threads) {
  const Batch batch = long_batch();
  const std::vector<float> x = random_floats(batch.tokens, -5, 0);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Answer expected = run_fused_program(everything(), batch, {data_of(x)});
  for (const int threads : {2, 3, 7}) {
    at::set_num_threads(threads);
    for (int i = 0; i < 5; ++i)
      EXPECT(has_same_bits(run_fused_program(everything(), batch, {data_of(x)}), expected));
  }
  at::set_num_threads(before);
}

TEST(fused_run_has_the_same_bits_on_any_cpu) {
  const Batch batch = long_batch();
  const std::vector<float> x = random_floats(batch.tokens, -5, 0);
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16, Dtype::kFloat64}) {
    const auto run = [&](const fused::Variant* variant) {
      return run_fused_program(everything(), batch, {data_of(x)}, dtype, *variant);
    };
    const Answer expected = run(fused::variants().back());
    EXPECT(std::isfinite(expected.computed.result.loss));
    for (const fused::Variant* variant : fused::variants())
      EXPECT(has_same_bits(run(variant), expected));
  }
}

TEST(fused_run_gives_a_sample_the_same_bits_alone_and_among_others) {
  const std::vector<uint32_t> lengths{5, 50001, 16384, 16385, 700, 33};
  const Batch batch(lengths);
  const std::vector<float> x = random_floats(batch.tokens, -5, 0);
  const Answer all = run_fused_program(everything(), batch, {data_of(x)});
  size_t first = 0;
  for (size_t s = 0; s < lengths.size(); ++s) {
    const std::vector<float> own(x.begin() + first, x.begin() + first + lengths[s]);
    const Answer alone = run_fused_program(everything(), Batch({lengths[s]}), {data_of(own)});
    for (size_t output = 0; output < 4; ++output)
      EXPECT_EQUAL(alone.outputs[output][0], all.outputs[output][s]);
    for (size_t i = 0; i < own.size(); ++i)
      EXPECT_EQUAL(alone.outputs[4][i], all.outputs[4][first + i]);
    first += lengths[s];
  }
}

}  // namespace
}  // namespace tokengrad::test
