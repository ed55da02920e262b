// What one run of a program is given, and whether it fits.
#include "core/request.h"

#include <string>

#include "core/error.h"

namespace tokengrad {
namespace {

void check_equal(const std::string& what, size_t expected, size_t got) {
  if (expected == got) return;
  throw Error("ERR_REQUEST",
              what + ": expected " + std::to_string(expected) + ", got " + std::to_string(got));
}

}  // namespace

at::ScalarType dtype_of(const Node& node, at::ScalarType precision) {
  if (node.kind == Kind::kMask) return at::kBool;
  return node.axis == Axis::kToken ? precision : at::kDouble;
}

void check_request(const Program& program, const Layout& layout, const Request& request) {
  check_equal("inputs: number of arrays", program.inputs().size(), request.inputs.size());
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const Node& node = program.nodes()[program.inputs()[i]];
    const InputData& input = request.inputs[i];
    const std::string where = "inputs[" + std::to_string(i) + "]";
    check_equal(where + ": number of values", static_cast<size_t>(layout.size(node.axis)),
                static_cast<size_t>(input.size));
    const at::ScalarType dtype = dtype_of(node, request.precision);
    if (input.dtype != dtype) {
      throw Error("ERR_REQUEST", where + ": expected values of " + c10::toString(dtype) + ", got " +
                                     c10::toString(input.dtype));
    }
  }
  check_equal("output: number of bytes",
              static_cast<size_t>(layout.positions()) * bytes_of(request.dtype),
              request.output.size());
  check_equal("outputs: number of arrays", program.outputs().size(), request.outputs.size());
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    const Axis axis = program.nodes()[program.outputs()[i]].axis;
    check_equal("outputs[" + std::to_string(i) + "]: number of values",
                static_cast<size_t>(layout.size(axis)), request.outputs[i].size());
  }
}

}  // namespace tokengrad
