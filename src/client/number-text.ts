// The shortest decimal text of float32 and bfloat16 numbers.

const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);

function floatOf(pattern: number): number {
  bits[0] = pattern;
  return float[0]!;
}

/** The largest finite float32, as its bits. */
const LARGEST = 0x7f7fffff;

/** Half-way between a positive float32 and the next one, exactly; beyond the largest it is where rounding overflows. */
function midpointAbove(pattern: number): number {
  const next = pattern === LARGEST ? 2 ** 128 : floatOf(pattern + 1);
  return (floatOf(pattern) + next) / 2;
}

const EXACT_POWERS = Array.from({ length: 23 }, (_, k) => 10 ** k);
const LOWEST_POWER = -39;
const POWERS = Float64Array.from({ length: 96 }, (_, i) => Number(`1e${i + LOWEST_POWER}`));

/** The double nearest to `digits` / 10^`scale`. */
function decimal(digits: number, scale: number): number {
  if (scale >= 0 && scale <= 22) return digits / EXACT_POWERS[scale]!;
  if (scale < 0 && scale >= -22) return digits * EXACT_POWERS[-scale]!;
  return Number(`${digits}e${-scale}`);
}

/**
 * The decimal with the fewest digits between `low` and `high`, nearest to `value` among those with that many digits.
 * The bounds themselves are left out: a text strictly between them is read alike by a parser that rounds once and by
 * one that goes through a double.
 */
function shortest(value: number, low: number, high: number): string {
  for (let scale = -Math.floor(Math.log10(value)); ; scale++) {
    const exact = value * POWERS[scale - LOWEST_POWER]!;
    const below = Math.floor(exact);
    const nearest = exact - below < 0.5 ? below : below + 1;
    const first = decimal(nearest, scale);
    if (low < first && first < high) return String(first);
    // At a power of two the lower neighbour is nearer than the upper one, so the farther candidate may be the one inside.
    const second = decimal(2 * below + 1 - nearest, scale);
    if (low < second && second < high) return String(second);
  }
}

/** Text of a finite number that is a float32: the fewest digits that read back to the same float32. */
export function float32Text(value: number): string {
  // Integers up to 2^24 are at most one apart, so no shorter decimal stands for them.
  if (Number.isInteger(value) && Math.abs(value) <= 0xffffff)
    return Object.is(value, -0) ? "-0" : String(value);
  const size = Math.abs(value);
  float[0] = size;
  const pattern = bits[0]!;
  const text = shortest(size, midpointAbove(pattern - 1), midpointAbove(pattern));
  return value < 0 ? `-${text}` : text;
}

const bfloat16Texts: string[] = new Array(0x10000);

/** Text of a finite bfloat16, given as its 16 bits: the fewest digits that read back to the same bfloat16. */
export function bfloat16Text(pattern: number): string {
  bfloat16Texts[pattern] ??= makeBfloat16Text(pattern);
  return bfloat16Texts[pattern];
}

function makeBfloat16Text(pattern: number): string {
  if (pattern & 0x8000) return `-${bfloat16Text(pattern & 0x7fff)}`;
  if (pattern === 0) return "0";
  // A reader may round to float32 first and then to bfloat16: what it holds after the first rounding must already
  // lie inside, so the bounds are half a float32 step within the midpoints of the neighbouring bfloat16 numbers.
  const wide = pattern * 0x10000;
  return shortest(floatOf(wide), midpointAbove(wide - 0x8000), midpointAbove(wide + 0x7fff));
}
