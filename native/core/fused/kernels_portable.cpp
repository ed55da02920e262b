// The kernels for any CPU. CMakeLists.txt has the flags.
#include "core/fused/kernel_rows.h"

namespace tokengrad::fused {

extern const Variant kPortable;
const Variant kPortable = variant_named("portable");

}  // namespace tokengrad::fused
