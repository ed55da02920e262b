// Texts written through the addon: every kind of row, marks, memory, the event loop.
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { BlockPool } from "../../src/blocks.ts";
import { TextBuilder } from "../../src/wire/text.ts";
import { lateness } from "../helpers.ts";
import { at, joined, runsOf, viewsOf, write } from "./helpers.ts";

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
