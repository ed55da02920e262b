// A body that no JavaScript string could hold: made, sent, and read back number by number.

import { constants } from "node:buffer";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { Client } from "../../src/client/client.ts";
import { readResult } from "../../src/wire/result.ts";
import { completed, SESSION } from "./server.ts";

const ROWS = 3052;
const LENGTH = 8192;

/** The parts of a body from a member on. */
async function* fromMember(parts: AsyncIterable<Buffer>, member: string) {
  const marker = Buffer.from(`"${member}":`);
  let before = Buffer.alloc(0);
  let found = false;
  for await (const part of parts) {
    bytes += part.length;
    if (found) {
      yield part;
      continue;
    }
    before = Buffer.concat([before.subarray(-marker.length), part]);
    const at = before.indexOf(marker);
    if (at < 0) continue;
    found = true;
    yield Buffer.from("{");
    yield before.subarray(at);
  }
}
let bytes = 0;

test("twenty-five million gradients arrive as they are", { timeout: 120_000 }, async () => {
  const values = new Float32Array(ROWS * LENGTH);
  // All bit patterns of finite numbers below 1, spread over the values.
  const bits = new Uint32Array(values.buffer);
  for (let i = 0; i < bits.length; i++) bits[i] = (i % 2) * 2 ** 31 + ((i * 2654435761) % 0x3f800000);
  const tokens = new Int32Array(LENGTH).fill(123_456);
  const weights = new Float32Array(LENGTH).fill(1);
  const sample = { tokens, targets: tokens, weights };
  const gradients = Array.from({ length: ROWS }, (_, row) =>
    values.subarray(row * LENGTH, (row + 1) * LENGTH),
  );
  const arrived = new Float32Array(values.length);
  let rows = 0;
  const server = createServer(async (request, response) => {
    if (request.method === "POST") {
      const layout = {
        rowLengths: new Uint32Array(ROWS).fill(LENGTH),
        runCounts: new Uint32Array(ROWS).fill(1),
        runs: Uint32Array.from({ length: 2 * ROWS }, (_, i) => (i % 2) * LENGTH),
      };
      const path = ["gradients", "*", "data"];
      const parts = fromMember(request, "gradients");
      ({ rows } = await readResult(parts, { path, layout, output: arrived, packed: true }));
    }
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(request.method === "POST" ? completed({}) : SESSION));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const client = new Client({
    apiKey: "key",
    baseURL: `http://127.0.0.1:${port}`,
    payloads: "inline",
    maxChunkBytes: Infinity,
    maxRetries: 0,
  });
  onTestFinished(() => client.close());
  const session = await client.sessions.attach("s-1");
  await session.customForwardBackward(Array<typeof sample>(ROWS).fill(sample), gradients);
  expect(rows).toBe(ROWS);
  expect(bytes).toBeGreaterThan(constants.MAX_STRING_LENGTH);
  expect(Buffer.compare(Buffer.from(arrived.buffer), Buffer.from(values.buffer))).toBe(0);
});
