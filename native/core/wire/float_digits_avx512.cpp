// The digits of float32 numbers on CPUs with AVX-512.
#ifdef __x86_64__
#define TOKENGRAD_CPU avx512
#include "core/wire/float_digits_loop.h"
#endif
