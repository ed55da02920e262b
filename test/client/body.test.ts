// Large bodies: made without holding the event loop, and sent whole.

import { expect, test } from "vitest";
import { BodyWriter, json } from "../../src/client/body.ts";
import { writeFloats } from "../../src/client/rows.ts";
import { lateness, seededRandom } from "../helpers.ts";
import { completed, scriptedSession } from "./server.ts";

const GRADIENTS = 2_000_000;

function randomRow(length: number): Float32Array {
  const random = seededRandom(1);
  return Float32Array.from({ length }, () => (random() - 0.5) * 0.01);
}

test("two million gradients, even in one row, never hold the event loop for 50 ms", {
  retry: 2,
}, async () => {
  const row = randomRow(GRADIENTS);
  let bytes = 0;
  const late = await lateness(async () => {
    const writer = new BodyWriter(() => {});
    await writeFloats(writer, row, { path: "gradients[0]", sample: 0 });
    bytes = writer.finish().bytes;
  });
  expect(late).toBeLessThan(50);
  expect(bytes).toBeGreaterThan(GRADIENTS * 10);
});

test("chunks join to the text, whatever the lengths", async () => {
  for (const length of [0, 1, 511, 512, 513, 100_000]) {
    const writer = new BodyWriter(() => {});
    writer.text(`{${json("é")}:`);
    await writer.array(length, (index) => String(index));
    writer.text("}");
    const { chunks, bytes } = writer.finish();
    const text = Buffer.concat(chunks).toString();
    expect(text).toBe(`{"\\u00e9":${JSON.stringify(Array.from({ length }, (_, index) => index))}}`);
    expect(JSON.parse(text)).toHaveProperty("é");
    expect(bytes).toBe(Buffer.byteLength(text));
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
