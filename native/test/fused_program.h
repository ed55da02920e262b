// Builds programs and batches for the tests of the fused executor.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/fused/run.h"
#include "test/check.h"

namespace tokengrad::test {

/// ATen operators of the elementwise ops.
inline const std::map<std::string, std::string>& aten_names() {
  static const std::map<std::string, std::string> names{
      {"add", "add.Tensor"},
      {"sub", "sub.Tensor"},
      {"mul", "mul.Tensor"},
      {"div", "div.Tensor"},
      {"minimum", "minimum"},
      {"maximum", "maximum"},
      {"clamp", "clamp.Tensor"},
      {"pow", "pow.Tensor_Scalar"},
      {"neg", "neg"},
      {"abs", "abs"},
      {"square", "square"},
      {"sqrt", "sqrt"},
      {"exp", "exp"},
      {"log", "log"},
      {"log1p", "log1p"},
      {"expm1", "expm1"},
      {"sigmoid", "sigmoid"},
      {"logSigmoid", "log_sigmoid"},
      {"tanh", "tanh"},
      {"erf", "erf"},
      {"sign", "sign"},
      {"floor", "floor"},
      {"detach", "detach"},
      {"gt", "gt.Tensor"},
      {"ge", "ge.Tensor"},
      {"lt", "lt.Tensor"},
      {"le", "le.Tensor"},
      {"eq", "eq.Tensor"},
      {"ne", "ne.Tensor"},
      {"isFinite", "isfinite"},
      {"and", "logical_and"},
      {"or", "logical_or"},
      {"not", "logical_not"},
      {"where", "where.self"},
      {"tan", "tan"},
  };
  return names;
}

/// Builds a program a node at a time. The first token input is the variable.
class Builder {
 public:
  size_t input(Axis axis) {
    spec_.inputs.push_back(spec_.nodes.size());
    return add({"input", "", {}, {}, axis, Kind::kNumber});
  }
  size_t constant(double value) {
    return add({"constant", "", {}, {{"value", value}}, Axis::kBatch, Kind::kNumber});
  }
  /// A constant of the token axis.
  size_t everywhere(double value) { return spread(constant(value), Axis::kToken); }
  size_t spread(size_t node, Axis axis) {
    return add({"spread", "", {node}, {}, axis, spec_.nodes[node].kind});
  }
  /// An op with a rule of its own.
  size_t structural(const std::string& op, std::vector<size_t> inputs, Axis axis,
                    Attributes attributes = {}) {
    return add({op, "", std::move(inputs), std::move(attributes), axis, Kind::kNumber});
  }
  /// An elementwise op, or `scale`, `unscale`, `indicator`, of the axis of its inputs.
  size_t op(const std::string& name, std::vector<size_t> inputs, Attributes attributes = {}) {
    static const std::vector<std::string> masks{"gt", "ge",       "lt",  "le", "eq",
                                                "ne", "isFinite", "and", "or", "not"};
    const bool is_mask = std::find(masks.begin(), masks.end(), name) != masks.end();
    const auto aten = aten_names().find(name);
    const Axis axis = spec_.nodes[inputs[0]].axis;
    return add({name, aten == aten_names().end() ? "" : aten->second, std::move(inputs),
                std::move(attributes), axis, is_mask ? Kind::kMask : Kind::kNumber});
  }
  size_t sum(size_t node, Axis axis) { return structural("sum", {node}, axis); }
  /// Any node at all.
  size_t node(NodeSpec node) { return add(std::move(node)); }

  Program build(size_t loss, size_t gradient, std::vector<size_t> metrics = {},
                std::vector<size_t> outputs = {}) {
    spec_.loss = loss;
    spec_.gradient = gradient;
    spec_.metrics = std::move(metrics);
    spec_.outputs = std::move(outputs);
    spec_.variable = 0;
    spec_.forward = spec_.nodes.size();
    return Program(spec_);
  }
  /// Everything that a run gives back is in `outputs`.
  Program build_outputs(std::vector<size_t> outputs) {
    return build(constant(0), everywhere(0), {}, std::move(outputs));
  }

 private:
  size_t add(NodeSpec node) {
    spec_.nodes.push_back(std::move(node));
    return spec_.nodes.size() - 1;
  }
  ProgramSpec spec_{};
};

/// A batch of samples with given numbers of trained tokens, each behind a prompt, and some with a
/// gap among them.
struct Batch {
  std::vector<uint32_t> row_lengths;
  std::vector<uint32_t> run_counts;
  std::vector<uint32_t> runs;
  std::vector<uint32_t> group_sizes;
  int64_t positions = 0;
  int64_t tokens = 0;

  explicit Batch(const std::vector<uint32_t>& lengths, std::vector<uint32_t> groups = {})
      : group_sizes(std::move(groups)) {
    for (size_t s = 0; s < lengths.size(); ++s) add_sample(lengths[s], s);
    if (group_sizes.empty()) group_sizes = {static_cast<uint32_t>(lengths.size())};
  }

  LayoutSpec spec() const { return {row_lengths, run_counts, runs, group_sizes}; }

 private:
  void add_sample(uint32_t length, size_t s) {
    const auto prompt = static_cast<uint32_t>(s % 5);
    const bool has_gap = s % 3 == 1 && length > 3;
    const uint32_t first = has_gap ? length / 2 : length;
    const uint32_t gap = has_gap ? 7 : 0;
    run_counts.push_back(length == 0 ? 0 : (has_gap ? 2 : 1));
    if (length > 0) runs.insert(runs.end(), {prompt, first});
    if (has_gap) runs.insert(runs.end(), {prompt + first + gap, length - first});
    row_lengths.push_back(prompt + length + gap + static_cast<uint32_t>(s % 2));
    positions += row_lengths.back();
    tokens += length;
  }
};

/// What a run gave: everything it writes.
struct Answer {
  Computed computed;
  std::vector<std::byte> gradient;
  std::vector<std::vector<double>> outputs;

  template <typename T>
  std::vector<T> rows() const {
    std::vector<T> values(gradient.size() / sizeof(T));
    std::copy_n(gradient.data(), gradient.size(), reinterpret_cast<std::byte*>(values.data()));
    return values;
  }
};

inline InputData data_of(const std::vector<float>& values) {
  return {values.data(), static_cast<int64_t>(values.size()), at::kFloat};
}
inline InputData data_of(const std::vector<double>& values) {
  return {values.data(), static_cast<int64_t>(values.size()), at::kDouble};
}

/// Runs a program on the CPU's fastest variant of the kernels, or another one.
inline Answer run_fused_program(const Program& program, const Batch& batch,
                                std::vector<InputData> inputs, Dtype dtype = Dtype::kFloat32,
                                const fused::Variant& variant = *fused::variants().front()) {
  const Layout layout(batch.spec(), at::kCPU);
  Answer answer;
  answer.gradient.assign(static_cast<size_t>(layout.positions()) * bytes_of(dtype),
                         std::byte{0xAB});
  Request request{.layout = batch.spec(),
                  .inputs = std::move(inputs),
                  .precision = at::kFloat,
                  .output = answer.gradient,
                  .dtype = dtype};
  for (const size_t output : program.outputs()) {
    const Axis axis = program.nodes()[output].axis;
    answer.outputs.emplace_back(static_cast<size_t>(layout.size(axis)), 123.0);
  }
  for (auto& output : answer.outputs) request.outputs.emplace_back(output);
  const CancelFlag never;
  answer.computed = fused::run(fused::Plan(program), layout, request, never, variant);
  return answer;
}

inline std::vector<float> random_floats(int64_t count, float low, float high, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> between(low, high);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = between(random);
  return values;
}

inline std::vector<double> random_doubles(int64_t count, double low, double high,
                                          unsigned seed = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> between(low, high);
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = between(random);
  return values;
}

/// A policy gradient with a clipped ratio and a k3 penalty, and its gradient. Inputs: logprobs,
/// old logprobs, reference (token), advantages (sample). Metrics: the penalty's mean over all
/// tokens and the share of clipped ones.
inline Program clipped_policy_gradient() {
  Builder b;
  const size_t logprobs = b.input(Axis::kToken);
  const size_t old = b.input(Axis::kToken);
  const size_t reference = b.input(Axis::kToken);
  const size_t advantages = b.input(Axis::kSample);
  const size_t one = b.everywhere(1);
  const size_t zero = b.everywhere(0);
  const size_t beta = b.everywhere(0.04);
  const size_t low = b.everywhere(0.8);
  const size_t high = b.everywhere(1.2);

  const size_t ratio = b.op("exp", {b.op("sub", {logprobs, old})});
  const size_t advantage = b.spread(advantages, Axis::kToken);
  const size_t plain = b.op("mul", {ratio, advantage});
  const size_t clipped = b.op("mul", {b.op("clamp", {ratio, low, high}), advantage});
  const size_t surrogate = b.op("minimum", {plain, clipped});
  const size_t drift = b.op("sub", {reference, logprobs});
  const size_t exp_drift = b.op("exp", {drift});
  const size_t penalty = b.op("sub", {b.op("sub", {exp_drift, drift}), one});
  const size_t each = b.op("sub", {b.op("mul", {penalty, beta}), surrogate});
  const size_t lengths = b.structural("count", {logprobs}, Axis::kSample);
  const size_t divisors = b.op("maximum", {lengths, b.spread(b.constant(1), Axis::kSample)});
  const size_t means = b.op("div", {b.sum(each, Axis::kSample), divisors});
  const size_t samples = b.structural("count", {divisors}, Axis::kBatch);
  const size_t loss = b.op("div", {b.sum(means, Axis::kBatch), samples});
  const size_t tokens = b.structural("count", {logprobs}, Axis::kBatch);
  const size_t penalty_mean = b.op("div", {b.sum(penalty, Axis::kBatch), tokens});
  const size_t is_clipped = b.op("lt", {clipped, plain});
  const size_t share = b.op("div", {b.structural("count", {is_clipped}, Axis::kBatch), tokens});

  const size_t weights =
      b.op("div", {b.spread(b.op("div", {b.constant(1), samples}), Axis::kSample), divisors});
  const size_t upstream = b.spread(weights, Axis::kToken);
  const size_t of_surrogate = b.op("neg", {upstream});
  const size_t is_plain = b.op("indicator", {b.op("lt", {plain, clipped})});
  const size_t half_tie =
      b.op("mul", {b.op("indicator", {b.op("eq", {plain, clipped})}), b.everywhere(0.5)});
  const size_t of_plain = b.op("scale", {of_surrogate, b.op("add", {is_plain, half_tie})});
  const size_t is_other = b.op("indicator", {is_clipped});
  const size_t of_clipped = b.op("scale", {of_surrogate, b.op("add", {is_other, half_tie})});
  const size_t is_inside = b.op("and", {b.op("ge", {ratio, low}), b.op("le", {ratio, high})});
  const size_t of_clamped =
      b.op("where", {is_inside, b.op("scale", {of_clipped, advantage}), zero});
  const size_t of_ratio = b.op("add", {b.op("scale", {of_plain, advantage}), of_clamped});
  const size_t of_penalty = b.op("mul", {upstream, beta});
  const size_t of_drift = b.op("sub", {b.op("scale", {of_penalty, exp_drift}), of_penalty});
  const size_t gradient = b.op("sub", {b.op("scale", {of_ratio, ratio}), of_drift});
  return b.build(loss, gradient, {penalty_mean, share});
}

}  // namespace tokengrad::test
