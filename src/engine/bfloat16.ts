// bfloat16 numbers, which JavaScript has no array for: the upper half of a float32's bits.

/** The float32 values of bfloat16 bits. Exact. */
export function toFloat32(bits: Uint16Array): Float32Array {
  const wide = new Uint32Array(bits.length);
  for (let i = 0; i < bits.length; i++) wide[i] = bits[i]! << 16;
  return new Float32Array(wide.buffer);
}
