// Number text: the fewest digits that read back to the same float32 or bfloat16, proven with exact arithmetic.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bfloat16Text, float32Text } from "../../src/client/number-text.ts";

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
  const [, whole, fraction = "", exponent = "0"] = /^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(text)!;
  const digits = `${whole}${fraction}`.replace(/^0+(?=\d)/, "");
  const stripped = digits.replace(/0+$/, "");
  return {
    digits: BigInt(stripped),
    power: Number(exponent) - fraction.length + (digits.length - stripped.length),
  };
}

/** Whether low < decimal < high, where the bounds are times 2^150. */
function inside({ digits, power }: Decimal, low: bigint, high: bigint): boolean {
  const ten = 10n ** BigInt(Math.abs(power));
  const value = power >= 0 ? (digits * ten) << 150n : digits << 150n;
  const unit = power >= 0 ? 1n : ten;
  return low * unit < value && value < high * unit;
}

/** The two decimals with `count` digits around a value that is given times 2^150. */
function neighbours(value: bigint, approximate: number, count: number): Decimal[] {
  const power = Math.floor(Math.log10(approximate)) - count + 1;
  const ten = 10n ** BigInt(Math.abs(power));
  const digits = power >= 0 ? value / (ten << 150n) : (value * ten) >> 150n;
  return [digits, digits + 1n].map((d) => ({ digits: d, power }));
}

function expectShortest(text: string, value: number, low: bigint, high: bigint): void {
  const decimal = parse(text);
  expect(inside(decimal, low, high), `${text} reads back`).toBe(true);
  const shorter = decimal.digits.toString().length - 1;
  if (shorter === 0) return;
  const rivals = neighbours(scaled(bitsOf(value)), value, shorter);
  expect(
    rivals.some((rival) => inside(rival, low, high)),
    `${text} is shortest`,
  ).toBe(false);
}

describe("float32", () => {
  const expectFloat32 = (pattern: number) => {
    const value = floatOf(pattern);
    const text = float32Text(value);
    expect(Math.fround(Number(text))).toBe(value);
    expect(JSON.parse(text)).toBe(Number(text));
    const above = pattern === 0x7f7fffff ? 1n << 278n : scaled(pattern + 1);
    expectShortest(text, value, (scaled(pattern - 1) + scaled(pattern)) / 2n, (scaled(pattern) + above) / 2n);
  };

  test("random bit patterns", () => {
    fc.assert(fc.property(fc.integer({ min: 1, max: 0x7f7fffff }), expectFloat32), { numRuns: 20_000 });
  });

  test("powers of two, whose lower neighbour is nearer, and their neighbours", () => {
    for (let exponent = 1; exponent < 255; exponent++) {
      const power = exponent * 2 ** 23;
      for (const pattern of [power - 1, power, power + 1]) expectFloat32(pattern);
    }
    for (let bit = 0; bit < 23; bit++) expectFloat32(2 ** bit);
  });

  test("negative numbers are the mirror image", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 0x7f7fffff }), (pattern) => {
        expect(float32Text(-floatOf(pattern))).toBe(`-${float32Text(floatOf(pattern))}`);
      }),
    );
  });

  test.each([
    [0, "0"],
    [-0, "-0"],
    [Math.fround(0.1), "0.1"],
    [Math.fround(-0.0425557), "-0.0425557"],
    [16777216, "16777216"],
    [-16777215, "-16777215"],
    [floatOf(1), "1e-45"],
    [floatOf(0x7f7fffff), "3.4028235e+38"],
  ])("%d is %s", (value, text) => {
    expect(float32Text(value)).toBe(text);
  });
});

test("every bfloat16", () => {
  for (let pattern = 1; pattern < 0x7f80; pattern++) {
    const wide = pattern * 0x10000;
    const text = bfloat16Text(pattern);
    const read = Number(text);
    expectShortest(text, floatOf(wide), scaled(wide - 0x8000), scaled(wide + 0x8000));
    // Read as a float32 first: still strictly nearer to this bfloat16 than to any other.
    const asFloat = bitsOf(read);
    expect(asFloat > wide - 0x8000 && asFloat < wide + 0x8000, text).toBe(true);
    expect(bfloat16Text(pattern | 0x8000)).toBe(`-${text}`);
  }
  expect([bfloat16Text(0), bfloat16Text(0x8000)]).toEqual(["0", "-0"]);
  expect(bfloat16Text(0x3dcd)).toBe("0.1");
});
