// Functions of the kernels, written without branches, so that compilers do many at once.
//
// Everything lies in an anonymous namespace and calls nothing but builtins: each variant's file is
// compiled for another CPU, and no function of it may be taken for that of another file. Without
// fused multiply-adds all variants give the same bits.
//
// float: within 2 units in the last place. double (coarse values, few of them): the C library's.
#pragma once

#include <cstdint>
#include <limits>

#define TOKENGRAD_INLINE [[gnu::always_inline]] inline

namespace tokengrad::fused {
namespace {

constexpr double kLog2OfE = 1.4426950408889634;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// exp(x) = scale * (1 + rest).
struct Exponential {
  double scale;
  double rest;
};

/// Relative error below 1e-11, and of `rest` too. Arguments beyond +-700 count as +-700, whose
/// results are 0 and infinity once they are floats.
TOKENGRAD_INLINE Exponential split_exp(double given) {
  constexpr double kToInteger = 0x1.8p52;
  const double low = given < -700.0 ? -700.0 : given;
  const double x = low > 700.0 ? 700.0 : low;
  // The sum's last bits are the integer nearest to x / ln 2, whatever the vector unit can convert.
  const double shifted = x * kLog2OfE + kToInteger;
  const double n = shifted - kToInteger;
  const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
  const uint64_t bits = (__builtin_bit_cast(uint64_t, shifted) + 1023) << 52;
  double series = 1.0 / 362880;
  series = series * r + 1.0 / 40320;
  series = series * r + 1.0 / 5040;
  series = series * r + 1.0 / 720;
  series = series * r + 1.0 / 120;
  series = series * r + 1.0 / 24;
  series = series * r + 1.0 / 6;
  series = series * r + 0.5;
  return {__builtin_bit_cast(double, bits), r * (series * r + 1.0)};
}

TOKENGRAD_INLINE double wide_exp(double x) {
  const Exponential parts = split_exp(x);
  return parts.scale * parts.rest + parts.scale;
}

TOKENGRAD_INLINE double wide_expm1(double x) {
  const Exponential parts = split_exp(x);
  return parts.scale * parts.rest + (parts.scale - 1.0);
}

/// atanh(s) / s from s squared, up to 1/9. Relative error below 1e-10.
TOKENGRAD_INLINE double atanh_series(double square) {
  double series = 1.0 / 19;
  series = series * square + 1.0 / 17;
  series = series * square + 1.0 / 15;
  series = series * square + 1.0 / 13;
  series = series * square + 1.0 / 11;
  series = series * square + 1.0 / 9;
  series = series * square + 1.0 / 7;
  series = series * square + 1.0 / 5;
  series = series * square + 1.0 / 3;
  return series * square + 1.0;
}

/// log(1 + x) of x from -0.3 to 1, with a small relative error.
TOKENGRAD_INLINE double small_log1p(double x) {
  const double s = x / (2.0 + x);
  return 2.0 * s * atanh_series(s * s);
}

/// Of numbers that are 0 or no denormals.
TOKENGRAD_INLINE double wide_log(double x) {
  constexpr uint64_t kRootOfHalf = 0x3FE6A09E667F3BCD;
  constexpr uint64_t kOne = 0x3FF0000000000000;
  const uint64_t bits = __builtin_bit_cast(uint64_t, x) + (kOne - kRootOfHalf);
  // The exponent as a double: put into the last bits of 2^52.
  const double n =
      __builtin_bit_cast(double, (bits >> 52) | 0x4330000000000000) - (0x1p52 + 1023.0);
  const double m = __builtin_bit_cast(double, (bits & 0x000FFFFFFFFFFFFF) + kRootOfHalf);
  const double logarithm =
      n * 6.93147180369123816490e-01 + (n * 1.90821492927058770002e-10 + small_log1p(m - 1.0));
  const double at_least_zero = x > 0.0 ? logarithm : -kInfinity;
  const double ordered = x < kInfinity ? at_least_zero : x;
  return x < 0.0 ? -__builtin_nan("") : ordered;
}

TOKENGRAD_INLINE float exp(float given) {
  constexpr float kToInteger = 0x1.8p23f;
  const float low = given < -104.0f ? -104.0f : given;
  const float x = low > 89.0f ? 89.0f : low;
  const float shifted = x * 1.44269504f + kToInteger;
  const float n = shifted - kToInteger;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float series = 1.9875691500e-4f;
  series = series * r + 1.3981999507e-3f;
  series = series * r + 8.3334519073e-3f;
  series = series * r + 4.1665795894e-2f;
  series = series * r + 1.6666665459e-1f;
  series = series * r + 5.0000001201e-1f;
  const float power = (series * (r * r) + r) + 1.0f;
  // Two factors, since one alone may be too small or too large for a float: rounded once.
  const auto exponent = static_cast<int32_t>(__builtin_bit_cast(uint32_t, shifted) - 0x4B400000u);
  const int32_t half = exponent >> 1;
  const float first = __builtin_bit_cast(float, (half + 127) << 23);
  const float second = __builtin_bit_cast(float, (exponent - half + 127) << 23);
  return power * first * second;
}

TOKENGRAD_INLINE float log(float given) {
  constexpr uint32_t kRootOfHalf = 0x3F3504F3;
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  const bool is_denormal = given < std::numeric_limits<float>::min();
  const float x = is_denormal ? given * 0x1p23f : given;
  const uint32_t bits = __builtin_bit_cast(uint32_t, x) - kRootOfHalf;
  const float n = static_cast<float>(static_cast<int32_t>(bits) >> 23) - (is_denormal ? 23.0f : 0.0f);
  const float f = __builtin_bit_cast(float, (bits & 0x007FFFFF) + kRootOfHalf) - 1.0f;
  const float square = f * f;
  float series = 7.0376836292e-2f;
  series = series * f - 1.1514610310e-1f;
  series = series * f + 1.1676998740e-1f;
  series = series * f - 1.2420140846e-1f;
  series = series * f + 1.4249322787e-1f;
  series = series * f - 1.6668057665e-1f;
  series = series * f + 2.0000714765e-1f;
  series = series * f - 2.4999993993e-1f;
  series = series * f + 3.3333331174e-1f;
  const float small = series * f * square + n * -2.12194440e-4f - 0.5f * square;
  const float logarithm = n * 0.693359375f + (f + small);
  const float at_least_zero = given > 0.0f ? logarithm : -kInfinite;
  const float ordered = given < kInfinite ? at_least_zero : given;
  return given < 0.0f ? -__builtin_nanf("") : ordered;
}

TOKENGRAD_INLINE float expm1(float x) {
  const auto result = static_cast<float>(wide_expm1(x));
  return x == 0.0f ? x : result;
}

TOKENGRAD_INLINE float log1p(float x) {
  // 1 + x is exact in double unless x is so small that the result is x.
  const auto result = static_cast<float>(wide_log(1.0 + static_cast<double>(x)));
  return __builtin_fabsf(x) < 0x1p-26f ? x : result;
}

TOKENGRAD_INLINE float sigmoid(float x) {
  return static_cast<float>(1.0 / (1.0 + wide_exp(-static_cast<double>(x))));
}

TOKENGRAD_INLINE float log_sigmoid(float given) {
  const double x = given;
  const double smaller = x > 0.0 ? 0.0 : x;
  return static_cast<float>(smaller - small_log1p(wide_exp(-__builtin_fabs(x))));
}

TOKENGRAD_INLINE float tanh(float x) {
  const double e = wide_expm1(2.0 * __builtin_fabs(static_cast<double>(x)));
  return __builtin_copysignf(static_cast<float>(e / (e + 2.0)), x);
}

TOKENGRAD_INLINE float pow(float x, double exponent) {
  const bool is_whole = __builtin_trunc(exponent) == exponent;
  const bool is_odd = is_whole & (__builtin_trunc(exponent / 2) * 2 != exponent);
  const float of_negative = is_whole ? 1.0f : __builtin_nanf("");
  const double size = __builtin_fabs(static_cast<double>(x));
  // The power 0 is 1 whatever the base.
  const double base = exponent == 0.0 ? 1.0 : size;
  const auto power = static_cast<float>(wide_exp(exponent * wide_log(base)));
  const float validity = x < 0.0f ? of_negative : 1.0f;
  const float valid = power * (size < kInfinity ? validity : 1.0f);
  return __builtin_copysignf(valid, is_odd ? x : 1.0f);
}

TOKENGRAD_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }
TOKENGRAD_INLINE float floor(float x) { return __builtin_floorf(x); }
TOKENGRAD_INLINE float erf(float x) { return __builtin_erff(x); }
TOKENGRAD_INLINE float abs(float x) { return __builtin_fabsf(x); }

TOKENGRAD_INLINE double exp(double x) { return __builtin_exp(x); }
TOKENGRAD_INLINE double log(double x) { return __builtin_log(x); }
TOKENGRAD_INLINE double expm1(double x) { return __builtin_expm1(x); }
TOKENGRAD_INLINE double log1p(double x) { return __builtin_log1p(x); }
TOKENGRAD_INLINE double sigmoid(double x) { return 1.0 / (1.0 + __builtin_exp(-x)); }
TOKENGRAD_INLINE double log_sigmoid(double x) {
  return (x > 0.0 ? 0.0 : x) - __builtin_log1p(__builtin_exp(-__builtin_fabs(x)));
}
TOKENGRAD_INLINE double tanh(double x) { return __builtin_tanh(x); }
TOKENGRAD_INLINE double pow(double x, double exponent) { return __builtin_pow(x, exponent); }
TOKENGRAD_INLINE double sqrt(double x) { return __builtin_sqrt(x); }
TOKENGRAD_INLINE double floor(double x) { return __builtin_floor(x); }
TOKENGRAD_INLINE double erf(double x) { return __builtin_erf(x); }
TOKENGRAD_INLINE double abs(double x) { return __builtin_fabs(x); }

}  // namespace
}  // namespace tokengrad::fused
