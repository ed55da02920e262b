// Number text: the fewest digits that read back to the same float32 or bfloat16, proven with exact arithmetic.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TextBuilder } from "../../src/wire/text.ts";
import { joined } from "./helpers.ts";

/** The texts of values, written as one row. */
async function textsOf(values: Float32Array | Uint16Array): Promise<string[]> {
  const builder = new TextBuilder();
  builder.row({ values, rule: "number", path: "row", sample: 0 });
  return joined(await builder.write())
    .slice(1, -1)
    .split(",");
}

const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);
const floatOf = (pattern: number) => {
  bits[0] = pattern;
  return float[0]!;
};
const bitsOf = (value: number) => {
  float[0] = value;
  return bits[0]!;
};

/** A positive float32 times 2^150, an even integer: midpoints between neighbours are integers too. */
function scaled(pattern: number): bigint {
  const exponent = pattern >>> 23;
  const fraction = BigInt(pattern & 0x7fffff);
  return exponent === 0 ? fraction << 1n : (fraction | 0x800000n) << BigInt(exponent);
}

interface Decimal {
  readonly digits: bigint;
  readonly power: number;
}

function parse(text: string): Decimal {
  const [, whole, fraction = "", exponent = "0"] = /^(\d+)(?:\.(\d+))?(?:e(-?\d+))?$/.exec(text)!;
  const digits = `${whole}${fraction}`.replace(/^0+(?=\d)/, "");
  const stripped = digits.replace(/0+$/, "");
  return {
    digits: BigInt(stripped),
    power: Number(exponent) - fraction.length + (digits.length - stripped.length),
  };
}

/** Numbers that lie between two bounds, given times 2^150; the bounds themselves are among them or not. */
interface Interval {
  readonly low: bigint;
  readonly high: bigint;
  readonly closed: boolean;
}

function inside({ digits, power }: Decimal, { low, high, closed }: Interval): boolean {
  const ten = 10n ** BigInt(Math.abs(power));
  const value = power >= 0 ? (digits * ten) << 150n : digits << 150n;
  const unit = power >= 0 ? 1n : ten;
  const within = low * unit < value && value < high * unit;
  return within || (closed && (value === low * unit || value === high * unit));
}

/** The two decimals with `count` digits around a value that is given times 2^150. */
function neighbours(value: bigint, approximate: number, count: number): Decimal[] {
  const power = Math.floor(Math.log10(approximate)) - count + 1;
  const ten = 10n ** BigInt(Math.abs(power));
  const digits = power >= 0 ? value / (ten << 150n) : (value * ten) >> 150n;
  return [digits, digits + 1n].map((d) => ({ digits: d, power }));
}

function expectShortest(text: string, value: number, interval: Interval): void {
  const decimal = parse(text);
  expect(inside(decimal, interval), `${text} reads back`).toBe(true);
  const shorter = decimal.digits.toString().length - 1;
  if (shorter === 0) return;
  const rivals = neighbours(scaled(bitsOf(value)), value, shorter);
  expect(
    rivals.some((rival) => inside(rival, interval)),
    `${text} is shortest`,
  ).toBe(false);
}

describe("float32", () => {
  async function expectFloat32(patterns: Uint32Array): Promise<void> {
    const values = new Float32Array(patterns.buffer);
    const texts = await textsOf(values);
    const mirrored = await textsOf(values.map((value) => -value));
    expect(mirrored).toEqual(texts.map((text) => `-${text}`));
    for (const [index, text] of texts.entries()) {
      const value = values[index]!;
      const pattern = patterns[index]!;
      expect(Math.fround(Number(text))).toBe(value);
      expect(JSON.parse(text)).toBe(Number(text));
      const above = pattern === 0x7f7fffff ? 1n << 278n : scaled(pattern + 1);
      const low = (scaled(pattern - 1) + scaled(pattern)) / 2n;
      const high = (scaled(pattern) + above) / 2n;
      // Ties go to even ones.
      expectShortest(text, value, { low, high, closed: pattern % 2 === 0 });
    }
  }

  test("random bit patterns", async () => {
    const pattern = fc.integer({ min: 1, max: 0x7f7fffff });
    const patterns = fc.uniqueArray(pattern, { minLength: 100, maxLength: 300 });
    await fc.assert(
      fc.asyncProperty(patterns, (given) => expectFloat32(Uint32Array.from(given))),
      { numRuns: 100 },
    );
  });

  test("powers of two, whose lower neighbour is nearer, and their neighbours", async () => {
    const powers = Array.from({ length: 254 }, (_, exponent) => (exponent + 1) * 2 ** 23);
    await expectFloat32(Uint32Array.from(powers.flatMap((power) => [power - 1, power, power + 1])));
    await expectFloat32(Uint32Array.from({ length: 23 }, (_, bit) => 2 ** bit));
  });

  test("some by their texts", async () => {
    const cases: [number, string][] = [
      [0, "0"],
      [-0, "-0"],
      [Math.fround(0.1), "0.1"],
      [Math.fround(-0.0425557), "-0.0425557"],
      [0.001, "1e-3"],
      [16777216, "16777216"],
      [-16777215, "-16777215"],
      [floatOf(1), "1e-45"],
      [floatOf(0x7f7fffff), "34028235e31"],
    ];
    expect(await textsOf(Float32Array.from(cases, ([value]) => value))).toEqual(
      cases.map(([, text]) => text),
    );
  });
});

test("every bfloat16", async () => {
  const texts = await textsOf(Uint16Array.from({ length: 0x7f80 }, (_, pattern) => pattern));
  const mirrored = await textsOf(Uint16Array.from({ length: 0x7f80 }, (_, pattern) => pattern | 0x8000));
  expect(mirrored).toEqual(texts.map((text) => `-${text}`));
  expect([texts[0], texts[0x3dcd]]).toEqual(["0", "0.1"]);
  for (let pattern = 1; pattern < 0x7f80; pattern++) {
    const wide = pattern * 0x10000;
    const text = texts[pattern]!;
    const interval = { low: scaled(wide - 0x8000), high: scaled(wide + 0x8000), closed: false };
    expectShortest(text, floatOf(wide), interval);
    // Read as a float32 first: still strictly nearer to this bfloat16 than to any other.
    const asFloat = bitsOf(Number(text));
    expect(asFloat > wide - 0x8000 && asFloat < wide + 0x8000, text).toBe(true);
  }
});
