// Writes packed gradients into the full rows of a batch, in the type that is asked for.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>

#include "core/dtype.h"
#include "core/layout.h"

namespace tokengrad {

/// Writes `gradient` ([tokens], float32 or float64, on the CPU) to the positions of the trained
/// tokens and 0 to all others. `out` holds one value of `dtype` per position. Gives the first
/// token, in their order, whose value is not finite once it is of that type; none if all are.
std::optional<int64_t> scatter(const at::Tensor& gradient, const Layout& layout, Dtype dtype,
                               std::span<std::byte> out);

}  // namespace tokengrad
