// Tests of the fused executor on programs made by chance: every output has the oracle's bits.
#include <random>

#include "test/check.h"
#include "test/fused_oracle.h"
#include "test/fused_program.h"

namespace tokengrad::test {
namespace {

/// A program of whole numbers, so that sums are exact in any order. Everything that may grow is
/// held between bounds.
class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : random_(seed) {
    for (const Axis axis : {Axis::kToken, Axis::kToken, Axis::kSample, Axis::kGroup})
      numbers_[size_t(axis)].push_back(builder_.input(axis));
    add(Axis::kBatch, builder_.constant(3));
    for (const Axis axis : {Axis::kGroup, Axis::kSample, Axis::kToken})
      add(axis, builder_.spread(any(Axis::kBatch), axis));
    for (int i = 0; i < 45; ++i) step();
  }

  Program build() {
    const size_t loss = hold(Axis::kBatch, builder_.sum(any(Axis::kToken), Axis::kBatch));
    std::vector<size_t> outputs;
    for (int i = 0; i < 6; ++i) outputs.push_back(any(any_axis()));
    for (const auto& masks : masks_) {
      if (!masks.empty()) outputs.push_back(masks.back());
    }
    return builder_.build(loss, any(Axis::kToken), {any(Axis::kBatch), any(Axis::kBatch)}, outputs);
  }

 private:
  size_t below(size_t bound) { return random_() % bound; }
  Axis any_axis() { return static_cast<Axis>(below(kAxes)); }
  /// Recent nodes more often, so that programs become deep.
  size_t any(Axis axis) {
    const auto& nodes = numbers_[size_t(axis)];
    const size_t back = std::min(below(nodes.size()), below(nodes.size()));
    return nodes[nodes.size() - 1 - back];
  }
  void add(Axis axis, size_t node) { numbers_[size_t(axis)].push_back(node); }

  size_t hold(Axis axis, size_t node) {
    const auto bound = [&](double value) {
      const size_t constant = builder_.constant(value);
      return axis == Axis::kBatch ? constant : builder_.spread(constant, axis);
    };
    return builder_.op("clamp", {node, bound(-50), bound(60)});
  }

  void step() {
    const Axis axis = any_axis();
    switch (below(6)) {
      case 0:
        return add(axis, elementwise(axis));
      case 1:
        return mask(axis);
      case 2:
        return reduction();
      case 3:
        return spread();
      case 4:
        return coarse_array();
      default:
        return token_array();
    }
  }

  size_t elementwise(Axis axis) {
    static const std::vector<std::string> unary{"neg", "abs", "sign", "floor", "square", "detach"};
    static const std::vector<std::string> binary{"add",     "sub",     "mul",
                                                 "minimum", "maximum", "scale"};
    if (below(3) == 0) return hold(axis, builder_.op(unary[below(unary.size())], {any(axis)}));
    return hold(axis, builder_.op(binary[below(binary.size())], {any(axis), any(axis)}));
  }

  void mask(Axis axis) {
    static const std::vector<std::string> comparisons{"gt", "ge", "lt", "le", "eq", "ne"};
    auto& masks = masks_[size_t(axis)];
    masks.push_back(builder_.op(comparisons[below(comparisons.size())], {any(axis), any(axis)}));
    if (below(2) == 0) masks.push_back(builder_.op("and", {masks.back(), masks.front()}));
    if (below(3) == 0) masks.push_back(builder_.op("not", {masks.back()}));
    add(axis, builder_.op("where", {masks.back(), any(axis), any(axis)}));
    add(axis, builder_.op("indicator", {masks.back()}));
    if (axis == Axis::kBatch) return;
    const auto to = static_cast<Axis>(below(size_t(axis)));
    add(to, hold(to, builder_.structural("count", {masks.back()}, to)));
  }

  void reduction() {
    static const std::vector<std::string> names{"sum", "max", "min", "count"};
    const auto from = static_cast<Axis>(1 + below(kAxes - 1));
    const auto to = static_cast<Axis>(below(size_t(from)));
    add(to, hold(to, builder_.structural(names[below(names.size())], {any(from)}, to)));
  }

  void spread() {
    const auto to = static_cast<Axis>(1 + below(kAxes - 1));
    const auto from = static_cast<Axis>(below(size_t(to)));
    add(to, builder_.spread(any(from), to));
  }

  void coarse_array() {
    const Axis axis = below(2) == 0 ? Axis::kSample : Axis::kGroup;
    const Attributes within{{"within", double(below(size_t(axis)))}};
    if (below(2) == 0) return add(axis, builder_.structural("rank", {any(axis)}, axis, within));
    const size_t index = axis == Axis::kGroup && below(2) == 0
                             ? builder_.structural("members", {}, axis, {{"index", 1}})
                             : builder_.structural("argsort", {any(axis)}, axis, within);
    const size_t gathered = builder_.structural("gather", {any(Axis::kSample), index}, axis);
    add(axis, gathered);
    add(Axis::kSample,
        hold(Axis::kSample, builder_.structural("scatter", {gathered, index}, Axis::kSample)));
  }

  void token_array() {
    const size_t values = any(Axis::kToken);
    const Axis axis = Axis::kToken;
    const double flag = double(below(2));
    if (below(3) == 0) {
      return add(axis,
                 builder_.structural("shift", {values}, axis, {{"offset", double(below(5)) - 2}}));
    }
    if (below(3) == 0) {
      return add(axis, builder_.structural("rank", {values}, axis, {{"within", double(below(3))}}));
    }
    const Attributes how{{"reverse", flag}, {"exclusive", double(below(2))}, {"discount", -1}};
    add(axis, hold(axis, builder_.structural("cumsum", {values}, axis, how)));
  }

  std::mt19937 random_;
  Builder builder_;
  std::array<std::vector<size_t>, kAxes> numbers_;
  std::array<std::vector<size_t>, kAxes> masks_;
};

std::vector<double> whole_numbers(int64_t count, unsigned seed) {
  std::vector<double> values = random_doubles(count, -20, 20, seed);
  for (double& value : values) value = std::trunc(value);
  return values;
}

bool is_same(double x, double y) { return x == y || (x != x && y != y); }

void check_program(unsigned seed, const Batch& batch) {
  const Program program = RandomProgram(seed).build();
  const Layout layout(batch.spec(), at::kCPU);
  std::vector<std::vector<double>> doubles;
  for (const size_t input : program.inputs()) {
    const int64_t size = layout.size(program.nodes()[input].axis);
    doubles.push_back(whole_numbers(size, seed + static_cast<unsigned>(input)));
  }
  const std::vector<float> first(doubles[0].begin(), doubles[0].end());
  const std::vector<float> second(doubles[1].begin(), doubles[1].end());
  const Answer answer = run_fused_program(
      program, batch, {data_of(first), data_of(second), data_of(doubles[2]), data_of(doubles[3])},
      Dtype::kFloat64);

  const Oracle oracle(program, layout, doubles);
  EXPECT(is_same(answer.computed.result.loss, oracle.value(program.loss())[0]));
  for (size_t i = 0; i < program.metrics().size(); ++i) {
    EXPECT(is_same(answer.computed.result.metrics[i], oracle.value(program.metrics()[i])[0]));
  }
  for (size_t i = 0; i < program.outputs().size(); ++i) {
    const std::vector<double>& expected = oracle.value(program.outputs()[i]);
    EXPECT_EQUAL(answer.outputs[i].size(), expected.size());
    for (size_t k = 0; k < expected.size(); ++k) EXPECT(is_same(answer.outputs[i][k], expected[k]));
  }
  std::vector<double> rows(static_cast<size_t>(batch.positions), 0.0);
  for (int64_t token = 0; token < layout.size(Axis::kToken); ++token) {
    const Place place = layout.place(token);
    rows[size_t(layout.rows()[place.sample].position + place.position)] =
        oracle.value(program.gradient())[size_t(token)];
  }
  const std::vector<double> got = answer.rows<double>();
  for (size_t k = 0; k < rows.size(); ++k) EXPECT(is_same(got[k], rows[k]));
}

TEST(fused_random_programs_agree_with_the_oracle) {
  const Batch batch({5, 0, 513, 1, 16, 33, 700, 2}, {2, 3, 3});
  for (unsigned seed = 1; seed <= 150; ++seed) {
    try {
      check_program(seed, batch);
    } catch (const Failure& failure) {
      fail(__FILE__, __LINE__, "seed " + std::to_string(seed) + ": " + failure.message);
    }
  }
}

}  // namespace
}  // namespace tokengrad::test
