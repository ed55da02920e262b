// The digits of float32 numbers on any CPU.
#define TOKENGRAD_CPU portable
#include "core/wire/float_digits_loop.h"
