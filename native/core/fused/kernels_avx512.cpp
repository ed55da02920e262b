// The kernels for CPUs with AVX-512 (F, BW, DQ, VL). CMakeLists.txt has the flags.
#include "core/fused/kernel_rows.h"

namespace tokengrad::fused {

extern const Variant kAvx512;
const Variant kAvx512 = variant_named("avx512");

}  // namespace tokengrad::fused
