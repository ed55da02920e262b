// The texts of all bfloat16 numbers.
#include "core/wire/bfloat16_text.h"

#include "core/wire/decimal_text.h"

namespace tokengrad {
namespace {

constexpr uint32_t kInfinity = 0x7f80;

Bfloat16Text text_of(uint32_t bits) {
  char text[kNumberRoom] = "0";
  char* end = text + 1;
  if (bits != 0) {
    const uint32_t fraction = bits & 0x7f;
    const int biased = static_cast<int>(bits >> 7);
    const uint32_t c = biased == 0 ? fraction : fraction | 0x80;
    const int q = (biased == 0 ? 1 : biased) - 134;
    const bool is_power = fraction == 0 && biased > 1;
    end = write_decimal(shortest_decimal<Halves::kNone>(c, q, is_power), text);
  }
  *end++ = ',';
  Bfloat16Text entry{};
  entry.length = static_cast<uint8_t>(end - text);
  std::memcpy(entry.text, text, sizeof(entry.text));
  return entry;
}

}  // namespace

const Bfloat16Texts& bfloat16_texts() {
  static const Bfloat16Texts* const texts = [] {
    auto* made = new Bfloat16Texts{};
    for (uint32_t bits = 0; bits < kInfinity; ++bits) (*made)[bits] = text_of(bits);
    return made;
  }();
  return *texts;
}

}  // namespace tokengrad
