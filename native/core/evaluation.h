// Computes the nodes of a program, one after the other, with libtorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/layout.h"
#include "core/program.h"
#include "core/scatter.h"

namespace tokengrad {

/// Numbers of one input: `size` values of `dtype` (float32 or float64) at `data`, read in place.
struct InputData {
  const void* data;
  int64_t size;
  at::ScalarType dtype;
};

/// All that one run of a program needs. The memory it points at must stay until the run has ended.
struct Request {
  LayoutSpec layout;
  /// In the order of the program's inputs. Token inputs are of `precision`, all others float64.
  std::vector<InputData> inputs;
  /// Type of all token values: float32 or float64. Sample, group and batch values are always
  /// float64.
  at::ScalarType precision;
  /// Where the gradients go: one value of `dtype` per position.
  std::span<std::byte> output;
  Dtype dtype;
  /// Where the values of the program's outputs go, one array each: an element per element of the
  /// node's axis, packed. Masks become 0 and 1.
  std::vector<std::span<double>> outputs{};
};

/// The values of a program's nodes for one request. Shapes are [elements of the node's axis].
class Evaluation {
 public:
  /// Throws `ERR_REQUEST` if the inputs do not fit the program and the layout.
  Evaluation(const Program& program, const Layout& layout, const Request& request,
             at::Device device);

  /// The input that is differentiated; its history is recorded if it requires a gradient.
  const at::Tensor& variable() const { return values_[program_.inputs()[program_.variable()]]; }
  /// Computes a node from the values before it, which must still be there.
  const at::Tensor& compute(size_t node);
  /// Lets go of what no node after this one needs.
  void release(size_t node);

  const at::Tensor& value(size_t node) const { return values_[node]; }
  const Layout& layout() const { return layout_; }

 private:
  at::ScalarType dtype_of(const Node& node) const;
  at::Tensor apply(const Node& node) const;
  at::Tensor call(const Node& node) const;
  at::Tensor spread(const at::Tensor& values, Axis from, Axis to, at::ScalarType dtype) const;
  at::Tensor sum(const at::Tensor& values, Axis from, Axis to) const;
  at::Tensor member(const at::Tensor& values, int64_t index) const;
  void bind_input(size_t place, const InputData& input);

  const Program& program_;
  const Layout& layout_;
  const at::ScalarType precision_;
  const at::Device device_;
  std::vector<at::Tensor> values_;
};

}  // namespace tokengrad
