// bfloat16 numbers, which JavaScript has no array for: the upper half of a float32's bits.
import { describe, InputError } from "../errors.ts";

/**
 * The float32 values of bfloat16 bits. Exact.
 *
 * @throws {InputError} if what comes is no Uint16Array: other numbers are no bits.
 */
export function toFloat32(bits: Uint16Array): Float32Array {
  if (!(bits instanceof Uint16Array)) {
    throw new InputError("bits", `expected a Uint16Array, got ${describe(bits)}`);
  }
  const wide = new Uint32Array(bits.length);
  for (let i = 0; i < bits.length; i++) wide[i] = bits[i]! << 16;
  return new Float32Array(wide.buffer);
}
