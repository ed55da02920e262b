// Texts written through the addon: every kind of row, faults, signals, the event loop.
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { BlockPool } from "../../src/blocks.ts";
import { AbortError, InputError } from "../../src/errors.ts";
import type { TextRow } from "../../src/wire/columns.ts";
import { TextBuilder, type WrittenText } from "../../src/wire/text.ts";
import { lateness } from "../helpers.ts";
import { joined, runsOf, viewsOf } from "./helpers.ts";

const at = { path: "samples[2].row", sample: 2 };

/** The text of a JSON array of rows. */
async function write(
  rows: readonly Omit<TextRow, "path" | "sample">[],
  signal?: AbortSignal,
): Promise<WrittenText> {
  const text = new TextBuilder(signal);
  for (const [index, row] of rows.entries()) {
    text.text(index === 0 ? "[" : ",");
    text.row({ ...row, ...at });
    await text.settled();
  }
  text.text("]");
  return text.write();
}

/** A bfloat16's bits, of a float32 that is one. */
const bitsOf = (value: number) => new Uint32Array(Float32Array.of(value).buffer)[0]! >>> 16;

describe("a text", () => {
  it("holds rows of every kind between its texts", async () => {
    const text = new TextBuilder();
    text.text('{"é":');
    text.row({ values: Float32Array.of(0.1, -0, 1e-3), rule: "number", ...at });
    text.text(',"b":');
    text.text("");
    text.row({ values: Float64Array.of(0.1, 1), rule: "weight", ...at });
    text.text(',"c":');
    text.row({ values: Uint16Array.of(0x3dcd, 0), rule: "number", ...at });
    text.text(',"d":');
    text.row({ values: Int32Array.of(0, 2147483647), rule: "id", ...at });
    text.text(',"e":');
    text.row({ values: BigInt64Array.of(1n, 2n ** 53n, 2n ** 63n - 1n), rule: "quotedId", ...at });
    text.text(',"f":');
    text.row({ values: new Float32Array(0), rule: "number", ...at });
    text.text("}");
    const written = await text.write();
    const expected =
      '{"é":[0.1,-0,1e-3],"b":[0.1,1],"c":[0.1,0],"d":[0,2147483647],' +
      '"e":[1,"9007199254740992","9223372036854775807"],"f":[]}';
    expect(joined(written)).toBe(expected);
    expect(written.bytes).toBe(Buffer.byteLength(expected));
  });

  it("has zeros outside of a row's runs", async () => {
    const row = { values: Float32Array.of(1.5, -2, 3), rule: "number" as const };
    const text = await write([{ ...row, runs: runsOf(1, 2, 5, 1), length: 7 }]);
    expect(joined(text)).toBe("[[0,1.5,-2,0,0,3,0]]");
  });

  it("has zeros outside of a full row's runs", async () => {
    const row = { values: Float32Array.of(0, 1.5, -2, -0, 0, 3, 0), rule: "number" as const };
    const text = await write([{ ...row, runs: runsOf(1, 2, 5, 1) }]);
    expect(joined(text)).toBe("[[0,1.5,-2,0,0,3,0]]");
  });

  it("may be empty", async () => {
    const written = await new TextBuilder().write();
    expect([written.chunks, written.bytes]).toEqual([[], 0]);
  });

  it("of many values reads back to the same numbers", async () => {
    const values = Float32Array.from(
      { length: 300_000 },
      () => (Math.random() - 0.5) * 2 ** (40 * Math.random() - 30),
    );
    const halves = Uint16Array.from(values, bitsOf);
    const written = await write([
      { values, rule: "number" },
      { values: halves, rule: "number" },
    ]);
    expect(written.chunks.length).toBeGreaterThan(8);
    const [floats, bfloats] = JSON.parse(joined(written)) as number[][];
    expect(Float32Array.from(floats!)).toEqual(values);
    const bits = new Uint32Array(Float32Array.from(bfloats!).buffer);
    // Rounded to the nearest bfloat16, ties to even.
    expect(Uint16Array.from(bits, (b) => (b + 0x7fff + ((b >>> 16) & 1)) >>> 16)).toEqual(halves);
  });
});

it("of many rows keeps their order, and names the right one", async () => {
  const rows = Array.from({ length: 3000 }, (_, i) => ({ values: Int32Array.of(i), rule: "id" as const }));
  expect(JSON.parse(joined(await write(rows)))).toEqual(rows.map((_, i) => [i]));
  rows[2500]!.values[0] = -1;
  rows[2900]!.values[0] = -1;
  const text = new TextBuilder();
  for (const [sample, row] of rows.entries()) {
    text.row({ ...row, path: "rows[*]", sample });
    await text.settled();
  }
  await expect(text.write()).rejects.toMatchObject({ path: "rows[2500]", sample: 2500, position: 0 });
});

describe("marks", () => {
  it("are where they were made, among texts of any kind", async () => {
    const text = new TextBuilder();
    text.mark();
    text.text('{"é":');
    text.mark();
    text.mark();
    text.row({ values: Int32Array.of(1, 2), rule: "id", ...at });
    text.mark();
    text.text("€");
    text.text("😀");
    text.mark();
    text.text("-é");
    text.mark();
    text.row({ values: new Int32Array(0), rule: "id", ...at });
    text.text("}");
    text.mark();
    const written = await text.write();
    const before = [
      "",
      '{"é":',
      '{"é":',
      '{"é":[1,2]',
      '{"é":[1,2]€😀',
      '{"é":[1,2]€😀-é',
      '{"é":[1,2]€😀-é[]}',
    ];
    expect([...written.marks]).toEqual(before.map((part) => Buffer.byteLength(part)));
    expect(joined(written)).toBe(before.at(-1));
  });

  it("are right among rows whose runs lie in several arrays", async () => {
    const text = new TextBuilder();
    for (let nth = 0; nth < 4; nth++) {
      text.text("-");
      text.row({ values: Float32Array.of(0, nth), rule: "number", runs: runsOf(1, 1), ...at });
      text.mark();
      text.text(";");
      text.mark();
    }
    const written = await text.write();
    expect(joined(written)).toBe("-[0,0];-[0,1];-[0,2];-[0,3];");
    expect([...written.marks]).toEqual([6, 7, 13, 14, 20, 21, 27, 28]);
  });

  it("of a text without rows", async () => {
    const text = new TextBuilder();
    text.mark();
    text.text("é");
    text.mark();
    expect([...(await text.write()).marks]).toEqual([0, 2]);
  });

  it("cut any run of items out of a text of many groups and pieces", async () => {
    const items = Array.from({ length: 1500 }, (_, i) => ({
      ids: Int32Array.from({ length: i % 5 }, (_, k) => k * i),
      weights: new Float32Array(i % 700).fill(1),
      gradients: Float32Array.from({ length: i % 300 }, (_, k) => Math.fround(k / 7 - i)),
    }));
    const text = new TextBuilder();
    text.text("[");
    for (const [i, { ids, weights, gradients }] of items.entries()) {
      text.text(i === 0 ? "" : ",");
      text.mark();
      text.text('{"ids":');
      text.row({ values: ids, rule: "id", ...at });
      text.text(',"weights":');
      text.row({ values: weights, rule: "weight", ...at });
      text.text(',"gradients":');
      text.row({ values: gradients, rule: "number", ...at });
      await text.settled();
      text.text("}");
      text.mark();
    }
    text.text("]");
    const written = await text.write();
    expect(written.chunks.length).toBeGreaterThan(8);
    expect(written.marks.length).toBe(2 * items.length);
    const plain = items.map((item) =>
      Object.fromEntries(Object.entries(item).map(([name, values]) => [name, [...values]])),
    );
    for (const [first, last] of [
      [0, 0],
      [0, 1499],
      [341, 342],
      [682, 1100],
      [1499, 1499],
    ] as const) {
      const views = viewsOf(written, written.marks[2 * first]!, written.marks[2 * last + 1]!);
      const cut = JSON.parse(`[${Buffer.concat(views)}]`);
      const rounded = cut.map((item: { gradients: number[] }) => ({
        ...item,
        gradients: item.gradients.map(Math.fround),
      }));
      expect(rounded).toEqual(plain.slice(first, last + 1));
    }
  });
});

it("of long texts is handed over before they make a string too long", { timeout: 60_000 }, async () => {
  const text = new TextBuilder();
  const long = "x".repeat(8 * 1024 * 1024);
  for (let sample = 0; sample < 70; sample++) {
    text.text(long);
    text.row({ values: Int32Array.of(1), rule: "id", ...at });
  }
  expect((await text.write()).bytes).toBe(70 * (long.length + 3));
});

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

it("does not hold the event loop, however large the text is", { timeout: 60_000 }, async () => {
  const rows = Array.from({ length: 2500 }, () => new Float32Array(8192).fill(-0.12345678));
  let bytes = 0;
  // The first text of a process loads the addon.
  await new TextBuilder().write();
  const late = await lateness(async () => {
    const text = await write(rows.map((values) => ({ values, rule: "number" as const })));
    bytes = text.bytes;
  });
  expect(bytes).toBe(2500 * (8192 * 12 + 2) + 1);
  expect(late).toBeLessThan(50);
});

describe("memory for texts", () => {
  it("is used again once it is given back, up to a limit", () => {
    const grain = 32 * 1024;
    const pool = new BlockPool(3 * grain);
    const small = pool.take(grain - 1);
    expect(small.byteLength).toBe(grain - 1);
    const block = pool.take(grain);
    pool.give([small, block]);
    expect(pool.bytes).toBe(grain);
    expect(pool.take(grain + 1)).not.toBe(block);
    expect(pool.take(grain)).toBe(block);
    const [older, newer] = [new ArrayBuffer(2 * grain), new ArrayBuffer(2 * grain)];
    pool.give([older, newer, new ArrayBuffer(4 * grain)]);
    expect(pool.bytes).toBe(2 * grain);
    expect(pool.take(2 * grain)).toBe(newer);
    expect(pool.bytes).toBe(0);
  });

  it("is let go of when nobody wants it", () => {
    vi.useFakeTimers();
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const pool = new BlockPool();
    pool.give([pool.take(100_000)]);
    vi.advanceTimersByTime(9000);
    pool.give([pool.take(100_000)]);
    vi.advanceTimersByTime(9000);
    expect(pool.bytes).toBeGreaterThan(0);
    vi.advanceTimersByTime(2000);
    expect(pool.bytes).toBe(0);
  });

  it("is written again by the next text after a release", async () => {
    const text = () => write([{ values: new Float32Array(100_000).fill(0.5), rule: "number" }]);
    const first = await text();
    const buffers = first.chunks.map(({ buffer }) => buffer);
    first.release();
    const second = await text();
    expect(second.chunks.every(({ buffer }) => buffers.includes(buffer))).toBe(true);
    // Its memory is the second's now.
    first.release();
    const third = await text();
    expect(third.chunks.some(({ buffer }) => buffers.includes(buffer))).toBe(false);
  });
});
