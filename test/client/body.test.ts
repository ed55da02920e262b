// Large bodies: made without holding the event loop, cut anywhere, and sent whole.

import { expect, test } from "vitest";
import { itemBytes, itemsBetween, join, json } from "../../src/client/body.ts";
import { writeItems } from "../../src/client/items.ts";
import { lateness, seededRandom } from "../helpers.ts";
import { completed, scriptedSession } from "./server.ts";

const GRADIENTS = 2_000_000;
const { signal } = new AbortController();

function randomRow(length: number): Float32Array {
  const random = seededRandom(1);
  return Float32Array.from({ length }, () => (random() - 0.5) * 0.01);
}

test("two million gradients, even in one row of plain numbers, never hold the event loop for 50 ms", {
  retry: 2,
}, async () => {
  const row = Array.from(randomRow(GRADIENTS));
  const runs = { of: Uint32Array.of(0, GRADIENTS), first: 0, count: 1 };
  let bytes = 0;
  const late = await lateness(async () => {
    const items = await writeItems(
      { from: 0, to: 1 },
      (writer) => writer.gradients(row, "float32", runs, { path: "gradients[0]", sample: 0 }),
      signal,
    );
    bytes = items.bytes;
  });
  expect(late).toBeLessThan(50);
  expect(bytes).toBeGreaterThan(GRADIENTS * 10);
});

test("any run of items is a body of views, whatever their lengths", async () => {
  const lengths = [0, 1, 511, 100_000, 2];
  const from = 3;
  const items = await writeItems(
    { from, to: from + lengths.length },
    (writer, index) => {
      const row = Int32Array.from({ length: lengths[index - from]! }, (_, i) => i);
      writer.text(`{${json("é")}:`);
      writer.tokens(row, { path: "row", sample: index }, "as numbers");
      writer.text("}");
    },
    signal,
  );
  for (let first = 0; first <= lengths.length; first++) {
    for (let last = first; last <= lengths.length; last++) {
      const body = join(["[", itemsBetween(items, from + first, from + last), "]"]);
      const text = Buffer.concat(body.chunks).toString();
      expect(body.bytes).toBe(text.length);
      expect(itemBytes(items, from + first, from + last)).toBe(text.length - 2);
      const parsed = JSON.parse(text) as { é: number[] }[];
      expect(parsed.map(({ é }) => é.length)).toEqual(lengths.slice(first, last));
      for (const { é } of parsed) expect(é.every((value, i) => value === i)).toBe(true);
    }
  }
});

test("a body of many chunks arrives whole", async () => {
  const { session, requests } = await scriptedSession([completed({})], {
    payloads: "inline",
    maxChunkBytes: Number.POSITIVE_INFINITY,
  });
  const lengths = [70_000, 1, 130_000];
  const samples = lengths.map((length) => ({
    tokens: new Int32Array(length).fill(7),
    targets: new Int32Array(length).fill(8),
    weights: new Float32Array(length).fill(1),
  }));
  const gradients = lengths.map(randomRow);
  await session.customForwardBackward(samples, gradients);
  const body = JSON.parse(requests[0]!.body);
  expect(requests[0]!.body.length).toBeGreaterThan(2_000_000);
  for (const [index, row] of gradients.entries()) {
    expect(Float32Array.from(body.gradients[index].data)).toEqual(row);
  }
});
