// Programs and batches for the tests: built a node at a time.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/autograd_executor.h"
#include "core/torch_executor.h"
#include "test/check.h"

namespace tokengrad::test {

/// Builds a program a node at a time. The first input is the variable.
class Builder {
 public:
  size_t input(Axis axis) {
    spec_.inputs.push_back(spec_.nodes.size());
    return add({"input", "", {}, {}, axis, Kind::kNumber});
  }
  size_t constant(double value) {
    return add({"constant", "", {}, {{"value", value}}, Axis::kBatch, Kind::kNumber});
  }
  /// A constant at each token.
  size_t token(double value) { return op("spread", {constant(value)}, Axis::kToken); }
  size_t op(const std::string& name, std::vector<size_t> inputs, Axis axis,
            Attributes attributes = {}) {
    const Kind kind = name == "spread" ? spec_.nodes[inputs[0]].kind : Kind::kNumber;
    return add({name, "", std::move(inputs), std::move(attributes), axis, kind});
  }
  /// An elementwise op, by its ATen operator; its name is that without the overload.
  size_t aten(const std::string& name, std::vector<size_t> inputs, Attributes attributes = {}) {
    static const std::map<std::string, Kind> masks{
        {"gt", Kind::kMask},          {"ge", Kind::kMask},          {"lt", Kind::kMask},
        {"le", Kind::kMask},          {"eq", Kind::kMask},          {"ne", Kind::kMask},
        {"isfinite", Kind::kMask},    {"logical_and", Kind::kMask}, {"logical_or", Kind::kMask},
        {"logical_not", Kind::kMask}, {"nonzero", Kind::kNumber}};
    const std::string op = name.substr(0, name.find('.'));
    const Kind kind = masks.contains(op) ? masks.at(op) : Kind::kNumber;
    const Axis axis = spec_.nodes[inputs[0]].axis;
    return add({op, name, std::move(inputs), std::move(attributes), axis, kind});
  }
  size_t sum(size_t node) { return op("sum", {node}, Axis::kBatch); }

  /// The nodes that come after this belong to the gradient.
  void end_forward() { spec_.forward = spec_.nodes.size(); }
  ProgramSpec spec(size_t loss, size_t gradient, std::vector<size_t> metrics = {},
                   std::vector<size_t> outputs = {}) const {
    ProgramSpec spec = spec_;
    spec.variable = 0;
    spec.loss = loss;
    spec.gradient = gradient;
    spec.metrics = std::move(metrics);
    spec.outputs = std::move(outputs);
    if (spec.forward == 0) spec.forward = spec.nodes.size();
    return spec;
  }
  /// A program whose gradient nobody looks at: it is the variable.
  Program loss(size_t node, std::vector<size_t> metrics = {},
               std::vector<size_t> outputs = {}) const {
    return Program(spec(node, spec_.inputs[0], std::move(metrics), std::move(outputs)));
  }

 private:
  size_t add(NodeSpec node) {
    spec_.nodes.push_back(std::move(node));
    return spec_.nodes.size() - 1;
  }
  ProgramSpec spec_{};
};

/// Three samples in two groups: 2 of 3 positions trained, none of 2, 3 of 3. T is the precision,
/// and the type of the gradients.
template <typename T>
struct Batch {
  std::vector<uint32_t> row_lengths{3, 2, 3};
  std::vector<uint32_t> run_counts{1, 0, 1};
  std::vector<uint32_t> runs{1, 2, 0, 3};
  std::vector<uint32_t> group_sizes{2, 1};
  std::vector<T> logprobs{-1, -2, -3, -4, -5};
  /// Further inputs, of any axis but token.
  std::vector<std::vector<double>> others{};
  std::vector<T> out = std::vector<T>(8, T{77});
  std::vector<std::vector<double>> outputs{};

  LayoutSpec layout() const { return {row_lengths, run_counts, runs, group_sizes}; }

  Request request() {
    constexpr bool wide = std::is_same_v<T, double>;
    const auto size = [](const auto& values) { return static_cast<int64_t>(values.size()); };
    Request request{.layout = layout(),
                    .inputs = {{logprobs.data(), size(logprobs), wide ? at::kDouble : at::kFloat}},
                    .precision = wide ? at::kDouble : at::kFloat,
                    .output = std::as_writable_bytes(std::span(out)),
                    .dtype = wide ? Dtype::kFloat64 : Dtype::kFloat32};
    for (const auto& other : others)
      request.inputs.push_back({other.data(), size(other), at::kDouble});
    for (auto& output : outputs) request.outputs.push_back(output);
    return request;
  }

  /// Makes room for the outputs of a program.
  void prepare(const Program& program) {
    const Layout sizes(layout(), at::kCPU);
    out.assign(static_cast<size_t>(sizes.positions()), T{77});
    outputs.clear();
    for (const size_t output : program.outputs())
      outputs.emplace_back(sizes.size(program.nodes()[output].axis), 77.0);
  }
};

inline const CancelFlag kNever;

using Run = Computed (*)(const Program&, const Layout&, const Request&, at::Device,
                         const CancelFlag&);

/// Runs a program on the CPU; the batch holds what was written.
template <typename T>
Computed run(Run executor, const Program& program, Batch<T>& batch) {
  batch.prepare(program);
  const Request request = batch.request();
  return executor(program, Layout(request.layout, at::kCPU), request, at::kCPU, kNever);
}

/// The values of a node.
template <typename T>
std::vector<double> value_of(const Builder& builder, size_t node, size_t loss, Batch<T>& batch) {
  run(run_torch, builder.loss(loss, {}, {node}), batch);
  return batch.outputs[0];
}

/// Equal to a relative or absolute tolerance; infinities and NaN like each other.
inline bool is_near(double got, double expected, double tolerance) {
  if (!std::isfinite(expected)) {
    return std::isnan(expected) ? std::isnan(got) : got == expected;
  }
  return std::abs(got - expected) <= tolerance * std::max(1.0, std::abs(expected));
}

template <typename Got, typename Expected>
void expect_near(const char* file, int line, const Got& got, const Expected& expected,
                 double tolerance) {
  check_equal(file, line, "size", got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (is_near(got[i], expected[i], tolerance)) continue;
    fail(file, line,
         "element " + std::to_string(i) + ": expected " + std::to_string(expected[i]) + ", got " +
             std::to_string(got[i]));
  }
}

}  // namespace tokengrad::test

#define EXPECT_NEAR(got, expected, tolerance) \
  tokengrad::test::expect_near(__FILE__, __LINE__, got, expected, tolerance)
