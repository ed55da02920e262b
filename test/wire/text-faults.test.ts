// Texts that come to nothing: values that cannot be written, faults in between, signals.
import { describe, expect, it } from "vitest";
import { AbortError, InputError } from "../../src/errors.ts";
import { TextBuilder } from "../../src/wire/text.ts";
import { at, joined, runsOf, write } from "./helpers.ts";

describe("a value that cannot be written", () => {
  it.each([
    ["NaN", { values: Float32Array.of(0, Number.NaN), rule: "number" }, "NaN"],
    ["an infinity", { values: Float64Array.of(0, -Infinity), rule: "number" }, "-Infinity"],
    ["too large", { values: Float64Array.of(0, 1e39), rule: "number" }, "1e+39"],
    ["an infinite bfloat16", { values: Uint16Array.of(0, 0xff80), rule: "number" }, "-Infinity"],
    ["a negative weight", { values: Float32Array.of(0, -0.5), rule: "weight" }, "-0.5"],
    ["a weight that vanishes", { values: Float64Array.of(0, 1e-60), rule: "weight" }, "1e-60"],
    ["a negative id", { values: Int32Array.of(0, -7), rule: "id" }, "-7"],
    [
      "a negative large id",
      { values: BigInt64Array.of(0n, -(2n ** 60n)), rule: "quotedId" },
      "-1152921504606846976n",
    ],
  ] as const)("is named: %s", async (_, row, got) => {
    const error = await write([{ values: Float32Array.of(1), rule: "number" }, row]).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(InputError);
    expect(error).toMatchObject({ path: at.path, sample: 2, position: 1 });
    expect((error as Error).message).toMatch(new RegExp(`got ${got.replace("+", "\\+")}$`));
  });

  it.each([
    ["float32", { values: Float32Array.of(0, 1, 0.5, 0), rule: "number" }, "0.5"],
    ["float64", { values: Float64Array.of(-0, 1, 1e-300, 0), rule: "number" }, "1e-300"],
    ["bfloat16", { values: Uint16Array.of(0x8000, 1, 0xbf80, 0), rule: "number" }, "-1"],
    ["a weight", { values: Float32Array.of(0, 1, 1, 0), rule: "weight" }, "1"],
    ["NaN", { values: Float32Array.of(0, 1, Number.NaN, 0), rule: "number" }, "NaN"],
    ["an id", { values: Int32Array.of(0, 1, 7, 0), rule: "id" }, "7"],
    ["a large id", { values: BigInt64Array.of(0n, 1n, -7n, 0n), rule: "quotedId" }, "-7n"],
  ] as const)("may lie outside of a full row's runs: %s", async (_, row, got) => {
    const runs = runsOf(1, 1, 3, 1);
    const outside = "0, since nothing counts here";
    const place = { path: at.path, sample: 2, position: 2 };
    await expect(write([{ ...row, runs, outside }])).rejects.toMatchObject({
      ...place,
      message: `samples[2].row, sample 2, position 2: expected 0, since nothing counts here, got ${got}`,
    });
    await expect(write([{ ...row, runs }])).rejects.toMatchObject({
      ...place,
      message: `samples[2].row, sample 2, position 2: expected 0 outside of the runs, got ${got}`,
    });
  });

  it("is named within the runs of a full row", async () => {
    const values = Float32Array.of(0, 1, 0, 0, 0, Infinity, 0);
    const runs = runsOf(1, 2, 5, 1);
    await expect(write([{ values, rule: "number", runs }])).rejects.toMatchObject({
      position: 5,
      message: expect.stringContaining("expected a finite number within float32's range, got Infinity"),
    });
  });

  it("is named by its position in a packed row", async () => {
    const row = { values: Float32Array.of(1, 2, Infinity), rule: "number" as const };
    const text = write([{ ...row, runs: runsOf(1, 2, 5, 1), length: 7 }]);
    await expect(text).rejects.toMatchObject({
      position: 5,
      message: expect.stringContaining("got Infinity"),
    });
  });

  it("is the first of several, in a large text too", async () => {
    const values = new Float32Array(500_000).fill(0.1);
    for (const position of [300_000, 300_001, 499_999]) values[position] = Number.NaN;
    await expect(write([{ values, rule: "number" }])).rejects.toMatchObject({ position: 300_000 });
  });
});

describe("a fault", () => {
  const bad = { values: Float32Array.of(0, Number.NaN), rule: "number" } as const;
  const wrong = { values: [1, "2"], rule: "number" } as const;

  it("in values comes before later ones of the wrong type, which are found earlier", async () => {
    const text = new TextBuilder();
    for (const [sample, row] of [bad, wrong, wrong].entries()) text.row({ ...row, path: "rows[*]", sample });
    await expect(text.write()).rejects.toMatchObject({ path: "rows[0]", sample: 0, position: 1 });
  });

  it("of the wrong type comes before later ones in values", async () => {
    const text = new TextBuilder();
    for (const [sample, row] of [wrong, bad].entries()) text.row({ ...row, path: "rows[*]", sample });
    await expect(text.write()).rejects.toMatchObject({
      message: 'rows[0], sample 0, position 1: expected a number, got "2"',
    });
  });

  it("is named in the place of what a text is given up for behind it", async () => {
    const later = new Error("later");
    for (const row of [bad, wrong]) {
      const text = new TextBuilder();
      text.row({ ...row, path: "rows[*]", sample: 4 });
      expect(await text.cancel(later)).toMatchObject({ path: "rows[4]", position: 1 });
    }
    const good = new TextBuilder();
    good.row({ values: Float32Array.of(1), rule: "number", ...at });
    expect(await good.cancel(later)).toBe(later);
  });

  it("in an early one of many groups ends the text, and nothing else", async () => {
    const values = new Float32Array(64);
    const bad = new TextBuilder();
    bad.row({ values: Float32Array.of(Number.NaN), rule: "number", ...at });
    for (let sample = 0; sample < 200_000; sample++) {
      bad.row({ values, rule: "number", ...at });
      await bad.settled();
    }
    // A rejection that nobody looks at yet would end the process.
    await expect(bad.write()).rejects.toMatchObject({ position: 0 });
  });

  it("gives the memory back when nothing is written to it any more", async () => {
    const text = new TextBuilder();
    // The last piece's block is as large as those of the next texts.
    const values = new Float32Array(200 * 17_474 + 3000).fill(0.5);
    text.row({ values, rule: "number", ...at });
    await text.settled();
    // What no caller does: the native side refuses the second group while the first is being written.
    text.row({ values, rule: "number", runs: runsOf(5, values.length), ...at });
    await expect(text.write()).rejects.toMatchObject({ code: "ERR_REQUEST" });
    const next = await Promise.all(
      Array.from({ length: 50 }, () =>
        write([{ values: new Float32Array(3000).fill(0.25), rule: "number" }]),
      ),
    );
    const before = next.map(joined);
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(next.map(joined)).toEqual(before);
  });
});

describe("a signal", () => {
  const large = (signal: AbortSignal) =>
    write([{ values: new Float32Array(4_000_000).fill(0.1), rule: "number" }], signal);

  it("stops a text before it begins and while it is written", async () => {
    const before = AbortSignal.abort("why");
    await expect(large(before)).rejects.toMatchObject({ name: "AbortError", cause: "why" });
    const controller = new AbortController();
    const written = large(controller.signal);
    controller.abort();
    await expect(written).rejects.toBeInstanceOf(AbortError);
  });

  it("that fires later changes nothing", async () => {
    const controller = new AbortController();
    const written = await large(controller.signal);
    controller.abort();
    expect(written.bytes).toBe(4_000_000 * 4 + 3);
  });
});
