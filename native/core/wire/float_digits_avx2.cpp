// The digits of float32 numbers on CPUs with AVX2.
#ifdef __x86_64__
#define TOKENGRAD_CPU avx2
#include "core/wire/float_digits_loop.h"
#endif
