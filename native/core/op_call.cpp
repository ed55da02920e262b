// One call of an ATen operator, found by name in libtorch's dispatcher and checked against its
// schema.
#include "core/op_call.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>

#include <cmath>
#include <set>

#include "core/error.h"

namespace tokengrad {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& problem) {
  throw Error("ERR_PROGRAM", "aten::" + name + ": " + problem);
}

c10::OperatorHandle find(const std::string& name) {
  const size_t dot = name.find('.');
  const std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
  const auto op = c10::Dispatcher::singleton().findSchema(
      c10::OperatorName("aten::" + name.substr(0, dot), overload));
  if (!op) refuse(name, "this libtorch has no such operator");
  const c10::FunctionSchema& schema = op->schema();
  if (schema.is_mutable())
    refuse(name, "expected an operator that writes to none of its arguments");
  if (schema.returns().size() != 1 ||
      schema.returns()[0].type()->kind() != c10::TypeKind::TensorType) {
    refuse(name, "expected an operator that gives one tensor");
  }
  return *op;
}

/// `Tensor?` and `Scalar?` accept what `Tensor` and `Scalar` do.
c10::TypePtr without_optional(const c10::TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return optional ? optional->getElementType() : type;
}

/// An attribute as the schema's argument takes it.
c10::IValue convert(const std::string& name, const c10::Argument& argument, double value) {
  const auto whole = [&] {
    if (std::trunc(value) != value || std::abs(value) > 9007199254740991.0) {
      refuse(name, argument.name() + ": expected a whole number, got " + std::to_string(value));
    }
    return static_cast<int64_t>(value);
  };
  switch (without_optional(argument.type())->kind()) {
    case c10::TypeKind::NumberType:
    case c10::TypeKind::FloatType:
      return value;
    case c10::TypeKind::IntType:
      return whole();
    case c10::TypeKind::BoolType:
      return whole() != 0;
    default:
      refuse(name, argument.name() + " is a " + argument.type()->str() + ", not a number");
  }
}

}  // namespace

OpCall::OpCall(const std::string& name, size_t tensors, const Attributes& attributes)
    : op_(find(name)) {
  std::set<std::string> unused;
  for (const auto& [key, value] : attributes) unused.insert(key);
  for (const c10::Argument& argument : op_.schema().arguments()) {
    const bool is_tensor = without_optional(argument.type())->kind() == c10::TypeKind::TensorType;
    const auto attribute = attributes.find(argument.name());
    if (is_tensor && places_.size() < tensors) {
      places_.push_back(arguments_.size());
      arguments_.emplace_back();
    } else if (attribute != attributes.end()) {
      arguments_.push_back(convert(name, argument, attribute->second));
      unused.erase(argument.name());
    } else if (argument.default_value()) {
      arguments_.push_back(*argument.default_value());
    } else if (argument.type()->kind() == c10::TypeKind::OptionalType) {
      arguments_.emplace_back();
    } else {
      refuse(name, "expected a value for " + argument.name() + ", got none");
    }
  }
  if (places_.size() < tensors) {
    refuse(name, "expected at most " + std::to_string(places_.size()) + " tensors, got " +
                     std::to_string(tensors));
  }
  if (!unused.empty()) refuse(name, "has no argument named " + *unused.begin());
}

at::Tensor OpCall::operator()(const std::vector<at::Tensor>& tensors) const {
  std::vector<c10::IValue> stack = arguments_;
  for (size_t i = 0; i < places_.size(); ++i) stack[places_[i]] = tensors[i];
  op_.callBoxed(&stack);
  return std::move(stack[0]).toTensor();
}

std::string OpCall::name() const { return c10::toString(op_.operator_name()); }

}  // namespace tokengrad
