// Picks among the variants of the kernels.
#include "core/fused/kernels.h"

#include <vector>

#include "core/program.h"

namespace tokengrad::fused {

extern const Variant kPortable;
#if defined(__x86_64__)
extern const Variant kAvx2;
extern const Variant kAvx512;
#endif

namespace {

std::vector<const Variant*> supported() {
  std::vector<const Variant*> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    found.push_back(&kAvx512);
  }
  if (__builtin_cpu_supports("avx2")) found.push_back(&kAvx2);
#endif
  found.push_back(&kPortable);
  return found;
}

bool computes(const Kernel& kernel, const Node& node) {
  const size_t parameters = kernel.parameter == nullptr ? 0 : 1;
  return node.name == kernel.name && node.inputs.size() == kernel.operands &&
         node.attributes.size() == parameters &&
         (parameters == 0 || node.attributes.contains(kernel.parameter));
}

}  // namespace

std::span<const Variant* const> variants() {
  static const auto* found = new std::vector<const Variant*>(supported());
  return *found;
}

size_t kernel_of(const Node& node) {
  for (size_t i = 0; i < kPortable.count; ++i) {
    if (computes(kPortable.kernels[i], node)) return i;
  }
  return kNoKernel;
}

double parameter_of(size_t kernel, const Node& node) {
  const char* const name = kPortable.kernels[kernel].parameter;
  return name == nullptr ? 0.0 : node.attribute(name);
}

}  // namespace tokengrad::fused
