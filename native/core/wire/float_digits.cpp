// The choice of the best code for this CPU.
#include "core/wire/float_digits.h"

namespace tokengrad {

FindDigits find_digits() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    return avx512::find_digits;
  }
  if (__builtin_cpu_supports("avx2")) return avx2::find_digits;
#endif
  return portable::find_digits;
}

}  // namespace tokengrad
