// How messages name values: short, and never by what a value says of itself.
import { expect, test } from "vitest";
import { describe } from "../src/errors.ts";

test.each<[unknown, string]>([
  [undefined, "undefined"],
  [null, "null"],
  [-0.5, "-0.5"],
  [Number.NaN, "NaN"],
  [10n, "10n"],
  [true, "true"],
  ["a\n", '"a\\n"'],
  ["x".repeat(1e6), `"${"x".repeat(60)}"…`],
  [Symbol("s"), "a symbol"],
  [() => 1, "a function"],
  [[1, 2, 3], "an array of 3"],
  [new Float32Array(2), "a Float32Array of 2"],
  [new Int8Array(2), "an Int8Array of 2"],
  [new DataView(new ArrayBuffer(4)), "a DataView"],
  [{}, "an object"],
  [Object.create(null), "an object"],
  [Promise.resolve(), "a Promise"],
  [JSON.parse('{"constructor":{"name":"long"},"length":3}'), "an object"],
])("%# %s", (value, text) => {
  expect(describe(value)).toBe(text);
});
