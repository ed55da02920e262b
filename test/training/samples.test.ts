// Samples built from one token sequence and its mask.
import { expect, test } from "vitest";
import { buildCrossEntropySample, extractLossMask } from "../../src/training/samples.ts";

test("the shift by one happens inside: each target is the token that follows its input", () => {
  const sample = buildCrossEntropySample({ tokens: [10, 11, 12, 13, 14, 15], mask: [0, 0, 0, 1, 1, 1] });
  expect(sample.tokens).toEqual([10, 11, 12, 13, 14]);
  expect(sample.targets).toEqual([11, 12, 13, 14, 15]);
  expect(extractLossMask(sample)).toEqual(Float32Array.of(0, 0, 1, 1, 1));
});

test("typed arrays, BigInt and decimal strings stay what they are", () => {
  const mask = [0, 0.5, 1];
  expect(buildCrossEntropySample({ tokens: Int32Array.of(1, 2, 3), mask }).targets).toEqual(
    Int32Array.of(2, 3),
  );
  expect(buildCrossEntropySample({ tokens: BigInt64Array.of(1n, 2n, 3n), mask }).tokens).toEqual(
    BigInt64Array.of(1n, 2n),
  );
  expect(buildCrossEntropySample({ tokens: [1n, "2", 3], mask }).targets).toEqual(["2", 3]);
  expect(buildCrossEntropySample({ tokens: [1, 2, 3], mask }).weights).toEqual(Float32Array.of(0.5, 1));
});

test("wrong lengths and masks are refused by position", () => {
  const build = (tokens: number[], mask: number[]) => () => buildCrossEntropySample({ tokens, mask });
  expect(build([1], [1])).toThrow("tokens: expected at least 2 tokens, got 1");
  expect(build([1, 2, 3], [1, 1])).toThrow("mask: expected 3 entries, as many as tokens, got 2");
  expect(build([1, 2, 3], [0, 1, -1])).toThrow(
    "mask, position 2: expected a finite number of at least 0, got -1",
  );
  expect(build([1, 2, 3], [0, Number.NaN, 1])).toThrow("mask, position 1");
});
