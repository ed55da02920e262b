// The arithmetic of the fused executor: one kernel an op, in variants for several kinds of CPU that
// all give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dtype.h"
#include "core/reduction.h"

namespace tokengrad {
struct Node;
}

// Files of one kind of CPU include this: no inline function that others share may come in here,
// unless it is always inlined.
namespace tokengrad::fused {

/// Blocks are computed in whole groups of this many values; sums have as many running parts.
constexpr int64_t kLanes = 16;
constexpr size_t kMostOperands = 3;

/// Computes `count` values, a multiple of kLanes. An operand has as many, or is one value that all
/// share; which, is part of the loop. `out` may be one of the operands.
using Loop = void (*)(float* out, const float* x, const float* y, const float* z, int64_t count,
                      double parameter);
/// The same of any number of doubles, none of them shared.
using WideLoop = void (*)(double* out, const double* x, const double* y, const double* z,
                          int64_t count, double parameter);

/// An elementwise op. Masks are 0 and 1.
struct Kernel {
  /// As the language has it.
  const char* name;
  size_t operands;
  /// The attribute that is the loops' parameter, or nullptr.
  const char* parameter;
  /// By which operands are shared: bit i for operand i. None where all are.
  Loop loops[1 << kMostOperands];
  WideLoop wide;
};

/// Takes `count` more values, any number, into kLanes running results: value i into lane i modulo
/// kLanes. `values` must be readable up to the next multiple of kLanes.
using Fold = void (*)(const float* values, int64_t count, double* lanes);

/// All kernels, compiled for one kind of CPU.
struct Variant {
  const char* name;
  const Kernel* kernels;
  size_t count;
  /// By `Reduction`.
  Fold folds[3];
  /// By `Dtype`.
  Store<float> stores[3];
};

/// Those that this CPU can run, the fastest first.
std::span<const Variant* const> variants();

/// Number of the kernel that computes an elementwise node, the same in all variants: it has the
/// node's name, as many operands, and no other attribute than its parameter. kNoKernel if there is
/// none.
size_t kernel_of(const Node& node);
constexpr size_t kNoKernel = static_cast<size_t>(-1);
/// The parameter of a kernel's loops for a node that it computes.
double parameter_of(size_t kernel, const Node& node);

}  // namespace tokengrad::fused
