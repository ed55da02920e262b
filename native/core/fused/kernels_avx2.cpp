// The kernels for CPUs with AVX2. CMakeLists.txt has the flags.
#include "core/fused/kernel_rows.h"

namespace tokengrad::fused {

extern const Variant kAvx2;
const Variant kAvx2 = variant_named("avx2");

}  // namespace tokengrad::fused
