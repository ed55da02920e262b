// What one run of a program is given: the batch, the inputs, and where the results go.
#pragma once

#include <c10/core/ScalarType.h>

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
  /// Where the values of the program's outputs go, in its order: one number per element of the
  /// node's axis; a mask's are 0 and 1.
  std::vector<std::span<double>> outputs{};
};

/// Type of a node's values in libtorch: bool of a mask, `precision` of a token's number, else
/// float64.
at::ScalarType dtype_of(const Node& node, at::ScalarType precision);

/// Throws `ERR_REQUEST` if the sizes and types do not fit the program and the layout.
void check_request(const Program& program, const Layout& layout, const Request& request);

}  // namespace tokengrad
