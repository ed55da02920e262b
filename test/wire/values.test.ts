// Rows of every kind become arrays that can be written; what is wrong with them is named.
import { describe, expect, it } from "vitest";
import { idValues, numberValues } from "../../src/wire/values.ts";
import { lateness } from "../helpers.ts";

const place = { path: "samples[1].tokens", sample: 1 };

describe("ids", () => {
  it("stay where they are in typed arrays", async () => {
    for (const row of [Int32Array.of(1), BigInt64Array.of(1n)]) expect(await idValues(row, place)).toBe(row);
  });

  it("are copied as small as they fit", async () => {
    expect(await idValues([0, 7, 2 ** 31 - 1], place)).toEqual(Int32Array.of(0, 7, 2 ** 31 - 1));
    expect(await idValues([2 ** 31], place)).toEqual(BigInt64Array.of(2n ** 31n));
    expect(await idValues([-0], place)).toEqual(Int32Array.of(0));
    expect(await idValues([1, 2n ** 63n - 1n, "9007199254740993"], place)).toEqual(
      BigInt64Array.of(1n, 2n ** 63n - 1n, 9007199254740993n),
    );
    expect(await idValues(Uint32Array.of(2 ** 32 - 1), place)).toEqual(BigInt64Array.of(2n ** 32n - 1n));
  });

  it.each([
    [-1],
    [0.5],
    [2 ** 53],
    [Number.NaN],
    [-1n],
    [2n ** 63n],
    ["-1"],
    ["1e3"],
    [""],
    [null],
    [undefined],
    [true],
  ])("are not %s", async (id) => {
    await expect(idValues([1, id], place)).rejects.toMatchObject({
      path: place.path,
      sample: 1,
      position: 1,
    });
  });
});

describe("numbers", () => {
  it("stay where they are in typed arrays of numbers and are copied from all else", async () => {
    for (const row of [Float32Array.of(1), Float64Array.of(1)])
      expect(await numberValues(row, place)).toBe(row);
    expect(await numberValues([0.1, -0, Infinity], place)).toEqual(Float64Array.of(0.1, -0, Infinity));
    expect(await numberValues(Uint8Array.of(0, 1), place)).toEqual(Float64Array.of(0, 1));
  });

  it.each([["1"], [1n], [null], [undefined]])("are not %s", async (value) => {
    await expect(numberValues([1, 2, value], place)).rejects.toMatchObject({ sample: 1, position: 2 });
  });
});

it("holds the event loop for no long row", { timeout: 30_000 }, async () => {
  const row = Array.from({ length: 4_000_000 }, (_, i) => i);
  const mixed: unknown[] = [...row];
  mixed[3_999_999] = 2 ** 40;
  const late = await lateness(async () => {
    expect((await idValues(row, place)).at(-1)).toBe(3_999_999);
    expect((await numberValues(row, place)).at(-1)).toBe(3_999_999);
    expect((await idValues(mixed, place)).at(-1)).toBe(2n ** 40n);
  });
  expect(late).toBeLessThan(50);
});
