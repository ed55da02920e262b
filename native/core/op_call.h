// One call of an ATen operator, found by name in libtorch's dispatcher and checked against its
// schema.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <map>
#include <string>
#include <vector>

namespace tokengrad {

/// Static numbers of an op, by the names of its ATen schema.
using Attributes = std::map<std::string, double>;

/// Tensor arguments are filled in the order of the schema, other arguments from the attributes of
/// the same names, and what is left from the schema's defaults.
class OpCall {
 public:
  /// `name` is the operator without its namespace, with its overload: `add.Tensor`, `exp`.
  /// `tensors` is how many tensors a call brings. Throws `ERR_PROGRAM` if libtorch has no such
  /// operator, or it writes to its arguments, gives anything but one tensor, or does not fit the
  /// tensors and attributes.
  OpCall(const std::string& name, size_t tensors, const Attributes& attributes);

  at::Tensor operator()(const std::vector<at::Tensor>& tensors) const;

  /// The operator's full name, such as `aten::add.Tensor`.
  std::string name() const;

 private:
  c10::OperatorHandle op_;
  /// The arguments of every call, with None in the places of tensors.
  std::vector<c10::IValue> arguments_;
  /// Places of the tensors among the arguments.
  std::vector<size_t> places_;
};

}  // namespace tokengrad
