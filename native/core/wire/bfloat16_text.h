// The texts of all bfloat16 numbers.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

namespace tokengrad {

/// The text of a bfloat16 without its sign, and a comma behind it.
struct Bfloat16Text {
  char text[15];
  /// With the comma.
  uint8_t length;
};

/// By the 15 bits without the sign; those of numbers that are not finite have length 0.
using Bfloat16Texts = std::array<Bfloat16Text, 0x8000>;

/// The table, made on first use in less than a millisecond.
///
/// A text gives back its number whether it is read as a float32 first or as a float64 and rounded
/// to the nearest bfloat16: it lies between the numbers half-way to the neighbours, and further
/// from them than half a float32 step.
const Bfloat16Texts& bfloat16_texts();

/// Writes a finite bfloat16, given as its bits, and a comma.
inline char* write_bfloat16(const Bfloat16Texts& texts, uint16_t bits, char* out) {
  *out = '-';
  out += bits >> 15;
  const Bfloat16Text& entry = texts[bits & 0x7fff];
  std::memcpy(out, &entry, sizeof(entry));
  return out + entry.length;
}

}  // namespace tokengrad
