// Numbers as a service may print and read them.

/** The shortest decimal that reads back to the same float32. */
export function float32Text(value: number): string {
  for (let digits = 6; ; digits++) {
    const shorter = Number(value.toPrecision(digits));
    if (Math.fround(shorter) === value) return String(shorter);
  }
}

const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);

/** A number read as a bfloat16: the nearest, ties to even. */
export function toBfloat16(value: number): number {
  float[0] = value;
  bits[0] = (bits[0]! + 0x7fff + ((bits[0]! >>> 16) & 1)) & 0xffff0000;
  return float[0]!;
}
