// Computes the nodes of a program, one after the other, with libtorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "core/layout.h"
#include "core/program.h"
#include "core/request.h"

namespace tokengrad {

/// The values of a program's nodes for one request. Shapes are [elements of the node's axis].
class Evaluation {
 public:
  /// The request has passed `check_request`.
  Evaluation(const Program& program, const Layout& layout, const Request& request,
             at::Device device);

  /// The input that is differentiated; its history is recorded if it requires a gradient.
  const at::Tensor& variable() const { return values_[program_.inputs()[program_.variable()]]; }
  /// Computes a node from the values before it, which must still be there. Throws `ERR_INDEX`,
  /// `ERR_GROUP_SIZE` and `ERR_REQUEST` as the ops of `arrays.h` do.
  const at::Tensor& compute(size_t node);
  /// Lets go of what no node after this one needs.
  void release(size_t node);

  const at::Tensor& value(size_t node) const { return values_[node]; }
  const Program& program() const { return program_; }
  const Layout& layout() const { return layout_; }

 private:
  at::Tensor apply(const Node& node) const;
  at::Tensor call(const Node& node) const;
  at::Tensor spread(const at::Tensor& values, Axis from, Axis to, at::ScalarType dtype) const;
  at::Tensor reduce(Op op, const at::Tensor& values, Axis from, Axis to) const;
  at::Tensor members(int64_t index) const;
  const Segments& within(const Node& node) const;

  const Program& program_;
  const Layout& layout_;
  const at::ScalarType precision_;
  const at::Device device_;
  std::vector<at::Tensor> values_;
};

}  // namespace tokengrad
