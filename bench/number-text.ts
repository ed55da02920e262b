// Numbers as a service may print them.

/** The shortest decimal that reads back to the same float32. */
export function float32Text(value: number): string {
  for (let digits = 6; ; digits++) {
    const shorter = Number(value.toPrecision(digits));
    if (Math.fround(shorter) === value) return String(shorter);
  }
}
