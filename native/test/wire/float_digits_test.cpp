// Tests of finding digits in blocks: the same on every kind of CPU, and as one by one.
#include "core/wire/float_digits.h"

#include <random>
#include <string>
#include <vector>

#include "core/wire/decimal_text.h"
#include "test/check.h"

namespace tokengrad {
namespace {

std::vector<FindDigits> implementations() {
  std::vector<FindDigits> all{portable::find_digits, find_digits()};
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) all.push_back(avx2::find_digits);
#endif
  return all;
}

/// Normal numbers, as bits.
void check(const std::vector<uint32_t>& bits) {
  for (const FindDigits find : implementations()) {
    FloatDigits digits;
    for (size_t begin = 0; begin < bits.size(); begin += kFloatBlock) {
      const size_t count = std::min(kFloatBlock, bits.size() - begin);
      find(bits.data() + begin, count, digits);
      for (size_t i = 0; i < count; ++i) {
        char text[kNumberRoom];
        char expected[kNumberRoom];
        const uint32_t size = bits[begin + i] & 0x7fffffff;
        EXPECT_EQUAL(std::string(text, write_digits(digits.first[i], digits.others[i],
                                                    digits.leading[i], text)),
                     std::string(expected, write_float32(std::bit_cast<float>(size), expected)));
      }
    }
  }
}

TEST(digits_of_blocks_are_those_of_single_numbers) {
  std::vector<uint32_t> bits;
  for (uint32_t exponent = 1; exponent < 255; ++exponent) {
    for (uint32_t fraction = 0; fraction < 50; ++fraction) {
      bits.push_back(exponent << 23 | fraction);
      bits.push_back(exponent << 23 | (0x7fffff - fraction));
    }
  }
  std::mt19937 random(9);
  for (int i = 0; i < 500'000; ++i) {
    const auto any = static_cast<uint32_t>(random());
    const uint32_t exponent = any >> 23 & 0xff;
    if (exponent != 0 && exponent != 0xff) bits.push_back(any);
  }
  bits.resize(bits.size() - 3);  // a last block that is not full
  check(bits);
}

TEST(digits_of_special_numbers_do_no_harm) {
  const std::vector<uint32_t> bits{0, 1, 0x7fffff, 0x80000000, 0x7f800000, 0xff800000, 0x7fffffff};
  for (const FindDigits find : implementations()) {
    FloatDigits digits;
    find(bits.data(), bits.size(), digits);
  }
}

}  // namespace
}  // namespace tokengrad
