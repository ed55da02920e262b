// Writes packed gradients into the full rows of a batch, in the type that is asked for.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>

#include "core/layout.h"

namespace tokengrad {

/// Types of the values in a result buffer.
enum class Dtype : uint8_t { kFloat32, kBfloat16, kFloat64 };

/// Bytes of one value.
size_t bytes_of(Dtype dtype);
const char* name_of(Dtype dtype);

/// The bits of the bfloat16 nearest to a value, ties to even. NaN becomes 0x7FC0; what is too
/// large, an infinity.
uint16_t to_bfloat16(float value);
/// Rounds once: not by way of float32.
uint16_t to_bfloat16(double value);

/// Writes `gradient` ([tokens], float32 or float64, on the CPU) to the positions of the trained
/// tokens and 0 to all others. `out` holds one value of `dtype` per position. Gives the first
/// token, in their order, whose value is not finite once it is of that type; none if all are.
std::optional<int64_t> scatter(const at::Tensor& gradient, const Layout& layout, Dtype dtype,
                               std::span<std::byte> out);

}  // namespace tokengrad
