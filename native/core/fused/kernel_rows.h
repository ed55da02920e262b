// The rows of the kernel table: an op is one row here. Each variant's file includes this once and
// compiles it for its kind of CPU; see math.h for the rules that this brings.
#pragma once

#include <type_traits>

#include "core/fused/kernels.h"
#include "core/fused/math.h"

namespace tokengrad::fused {
namespace {

/// Applies an op that may take the parameter behind its operands.
template <typename F, bool kParameter, typename... T>
TOKENGRAD_INLINE auto apply(double parameter, T... operands) {
  if constexpr (kParameter) {
    return F{}(operands..., parameter);
  } else {
    return F{}(operands...);
  }
}

template <typename F, size_t kOperands, bool kParameter, typename T>
TOKENGRAD_INLINE T apply_to(double parameter, T x, T y, T z) {
  if constexpr (kOperands == 1) return apply<F, kParameter>(parameter, x);
  if constexpr (kOperands == 2) return apply<F, kParameter>(parameter, x, y);
  if constexpr (kOperands == 3) return apply<F, kParameter>(parameter, x, y, z);
}

template <typename F, size_t kOperands, bool kParameter, unsigned kShared>
[[gnu::flatten]] void block_loop(float* out, const float* x, const float* y, const float* z,
                                 int64_t count, double parameter) {
  constexpr bool kX = kOperands > 0 && !(kShared & 1);
  constexpr bool kY = kOperands > 1 && !(kShared & 2);
  constexpr bool kZ = kOperands > 2 && !(kShared & 4);
  const float shared_x = kShared & 1 ? *x : 0.0f;
  const float shared_y = kShared & 2 ? *y : 0.0f;
  const float shared_z = kShared & 4 ? *z : 0.0f;
  const int64_t whole = count / kLanes * kLanes;
#pragma GCC ivdep
  for (int64_t i = 0; i < whole; ++i) {
    out[i] = apply_to<F, kOperands, kParameter, float>(parameter, kX ? x[i] : shared_x,
                                                       kY ? y[i] : shared_y, kZ ? z[i] : shared_z);
  }
}

template <typename F, size_t kOperands, bool kParameter>
[[gnu::flatten]] void wide_loop(double* out, const double* x, const double* y, const double* z,
                                int64_t count, double parameter) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = apply_to<F, kOperands, kParameter, double>(parameter, x[i], kOperands > 1 ? y[i] : 0.0,
                                                        kOperands > 2 ? z[i] : 0.0);
  }
}

template <typename F, size_t kOperands, bool kParameter, unsigned kShared>
constexpr Loop loop_of() {
  if constexpr (kShared + 1 < 1u << kOperands) {
    return block_loop<F, kOperands, kParameter, kShared>;
  } else {
    return nullptr;
  }
}

template <size_t kOperands, bool kParameter = false, typename F>
constexpr Kernel row(const char* name, F, const char* parameter = nullptr) {
  return {name,
          kOperands,
          parameter,
          {loop_of<F, kOperands, kParameter, 0>(), loop_of<F, kOperands, kParameter, 1>(),
           loop_of<F, kOperands, kParameter, 2>(), loop_of<F, kOperands, kParameter, 3>(),
           loop_of<F, kOperands, kParameter, 4>(), loop_of<F, kOperands, kParameter, 5>(),
           loop_of<F, kOperands, kParameter, 6>(), loop_of<F, kOperands, kParameter, 7>()},
          wide_loop<F, kOperands, kParameter>};
}

template <typename F>
constexpr Kernel unary(const char* name, F op) {
  return row<1>(name, op);
}
template <typename F>
constexpr Kernel binary(const char* name, F op) {
  return row<2>(name, op);
}
template <typename F>
constexpr Kernel ternary(const char* name, F op) {
  return row<3>(name, op);
}

// Conditions are joined by | and &: the short-circuiting ones are branches to some compilers.

/// The value of a mask.
template <typename T>
TOKENGRAD_INLINE T truth(bool condition) {
  return condition ? T{1} : T{0};
}
template <typename T>
TOKENGRAD_INLINE T smaller(T x, T y) {
  const T chosen = x < y ? x : y;
  return x != x ? x : chosen;
}
template <typename T>
TOKENGRAD_INLINE T larger(T x, T y) {
  const T chosen = x > y ? x : y;
  return x != x ? x : chosen;
}

// Written with templates of T rather than auto, so that a row reads `T x, T y`.
constexpr Kernel kKernels[] = {
    binary("add", []<typename T>(T x, T y) { return x + y; }),
    binary("sub", []<typename T>(T x, T y) { return x - y; }),
    binary("mul", []<typename T>(T x, T y) { return x * y; }),
    binary("div", []<typename T>(T x, T y) { return x / y; }),
    binary("scale", []<typename T>(T x, T y) { return x == 0 ? T{0} : x * y; }),
    binary("unscale", []<typename T>(T x, T y) { return x == 0 ? T{0} : x / y; }),
    binary("minimum", []<typename T>(T x, T y) { return smaller(x, y); }),
    binary("maximum", []<typename T>(T x, T y) { return larger(x, y); }),
    ternary("clamp", []<typename T>(T x, T low, T high) { return smaller(larger(x, low), high); }),
    row<1, true>(
        "pow", []<typename T>(T x, double exponent) { return pow(x, exponent); }, "exponent"),

    unary("neg", []<typename T>(T x) { return -x; }),
    unary("abs", []<typename T>(T x) { return abs(x); }),
    unary("square", []<typename T>(T x) { return x * x; }),
    unary("sqrt", []<typename T>(T x) { return sqrt(x); }),
    unary("exp", []<typename T>(T x) { return exp(x); }),
    unary("log", []<typename T>(T x) { return log(x); }),
    unary("log1p", []<typename T>(T x) { return log1p(x); }),
    unary("expm1", []<typename T>(T x) { return expm1(x); }),
    unary("sigmoid", []<typename T>(T x) { return sigmoid(x); }),
    unary("logSigmoid", []<typename T>(T x) { return log_sigmoid(x); }),
    unary("tanh", []<typename T>(T x) { return tanh(x); }),
    unary("erf", []<typename T>(T x) { return erf(x); }),
    unary("sign", []<typename T>(T x) { return truth<T>(x > 0) - truth<T>(x < 0); }),
    unary("floor", []<typename T>(T x) { return floor(x); }),

    binary("gt", []<typename T>(T x, T y) { return truth<T>(x > y); }),
    binary("ge", []<typename T>(T x, T y) { return truth<T>(x >= y); }),
    binary("lt", []<typename T>(T x, T y) { return truth<T>(x < y); }),
    binary("le", []<typename T>(T x, T y) { return truth<T>(x <= y); }),
    binary("eq", []<typename T>(T x, T y) { return truth<T>(x == y); }),
    binary("ne", []<typename T>(T x, T y) { return truth<T>(x != y); }),
    unary("isFinite",
          []<typename T>(T x) { return truth<T>(abs(x) <= std::numeric_limits<T>::max()); }),

    binary("and", []<typename T>(T x, T y) { return truth<T>((x != 0) & (y != 0)); }),
    binary("or", []<typename T>(T x, T y) { return truth<T>((x != 0) | (y != 0)); }),
    unary("not", []<typename T>(T x) { return truth<T>(x == 0); }),
    ternary("where", []<typename T>(T mask, T x, T y) { return mask != 0 ? x : y; }),
};

/// The lanes as vectors, so that they stay in registers.
typedef double Wide __attribute__((vector_size(kLanes / 2 * sizeof(double))));
typedef float Narrow __attribute__((vector_size(kLanes / 2 * sizeof(float))));

template <Reduction kReduction>
TOKENGRAD_INLINE void take(Wide& lanes, const float* values) {
  Narrow narrow;
  __builtin_memcpy(&narrow, values, sizeof narrow);
  const Wide x = __builtin_convertvector(narrow, Wide);
  if constexpr (kReduction == Reduction::kSum) lanes += x;
  if constexpr (kReduction == Reduction::kMax) lanes = (x > lanes) | (x != x) ? x : lanes;
  if constexpr (kReduction == Reduction::kMin) lanes = (x < lanes) | (x != x) ? x : lanes;
}

/// What lies beyond the last value is taken as the result of nothing.
template <Reduction kReduction>
[[gnu::flatten]] void fold(const float* values, int64_t count, double* lanes) {
  constexpr auto kEmpty = static_cast<float>(empty_of(kReduction));
  Wide halves[2];
  __builtin_memcpy(halves, lanes, sizeof halves);
  const int64_t whole = count / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    take<kReduction>(halves[0], values + i);
    take<kReduction>(halves[1], values + i + kLanes / 2);
  }
  if (whole < count) {
    float rest[kLanes];
    for (int64_t i = 0; i < kLanes; ++i) rest[i] = whole + i < count ? values[whole + i] : kEmpty;
    take<kReduction>(halves[0], rest);
    take<kReduction>(halves[1], rest + kLanes / 2);
  }
  __builtin_memcpy(lanes, halves, sizeof halves);
}

TOKENGRAD_INLINE void convert(float value, float& out) { out = value; }
TOKENGRAD_INLINE void convert(float value, double& out) { out = value; }
TOKENGRAD_INLINE void convert(float value, uint16_t& out) { out = to_bfloat16(value); }

/// The largest float that is finite once it is stored.
template <typename To>
constexpr float kLargest =
    std::is_same_v<To, uint16_t> ? 0x1.FEFFFEp127f : std::numeric_limits<float>::max();

template <typename To>
[[gnu::flatten]] bool store(const float* values, int64_t count, std::byte* out) {
  To* const to = reinterpret_cast<To*>(out);
  uint32_t finite = 1;
  for (int64_t i = 0; i < count; ++i) {
    convert(values[i], to[i]);
    finite &= abs(values[i]) <= kLargest<To> ? 1u : 0u;
  }
  return finite != 0;
}

constexpr Variant variant_named(const char* name) {
  return {name,
          kKernels,
          sizeof kKernels / sizeof *kKernels,
          {fold<Reduction::kSum>, fold<Reduction::kMax>, fold<Reduction::kMin>},
          {store<float>, store<uint16_t>, store<double>}};
}

}  // namespace
}  // namespace tokengrad::fused
