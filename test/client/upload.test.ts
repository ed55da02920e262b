// A body of 200 MB: uploaded from a process of its own, whose memory is watched from outside the heap.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { completed, SESSION } from "./server.ts";

const client = new URL("../../dist/client/client.js", import.meta.url).href;
const MB = 1e6;

/** Takes one upload without keeping it. */
async function storage() {
  const seen = { bytes: 0, digest: "", largestText: 0 };
  const server = createServer((request, response) => {
    const { url = "", method, headers } = request;
    if (method === "PUT") {
      const hash = createHash("sha256");
      request.on("data", (chunk) => {
        seen.bytes += chunk.length;
        hash.update(chunk);
      });
      request.on("end", () => {
        seen.digest = hash.digest("hex");
        response.end();
      });
      return;
    }
    request.resume();
    request.on("end", () => {
      const origin = `http://${headers.host}`;
      const answer = url.endsWith("/upload-url")
        ? { payload_id: "p", upload_url: `${origin}/up` }
        : url.includes("/operations/")
          ? completed({})
          : SESSION;
      response.end(JSON.stringify(answer));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

const SCRIPT = `
  import { Client } from ${JSON.stringify(client)};
  import { createHash } from "node:crypto";
  const session = await new Client({ baseURL: process.argv[1], apiKey: "k", wireFormat: "loss_fn_inputs" }).sessions.attach("s-1");
  const rows = 42, length = 160_000;
  const row = new Float32Array(length);
  let state = 1;
  for (let i = 0; i < length; i++) row[i] = ((state = (state * 48271) % 2147483647) / 2147483647 - 0.5) * 0.01;
  const tokens = new Int32Array(length).fill(123456);
  const samples = Array.from({ length: rows }, () => ({ tokens, targets: tokens, weights: new Float32Array(length).fill(0.5) }));
  const gradients = { dtype: "float32", rows, row: () => row };
  // Every string that text becomes bytes from passes here.
  let longest = 0;
  const from = Buffer.from;
  Buffer.from = (value, ...rest) => { if (typeof value === "string") longest = Math.max(longest, value.length); return from(value, ...rest); };
  global.gc();
  const before = process.memoryUsage.rss();
  let most = before;
  const watch = setInterval(() => { most = Math.max(most, process.memoryUsage.rss()); }, 5);
  await session.customForwardBackward(samples, gradients, { timeoutMs: 300_000 });
  clearInterval(watch);
  console.log(JSON.stringify({ extra: most - before, longest }));
  process.exit(0);
`;

test("takes less than twice its size in memory, and no string of it is ever made", {
  timeout: 120_000,
}, async () => {
  const { url, seen } = await storage();
  const child = spawn(process.execPath, ["--expose-gc", "--input-type=module", "-e", SCRIPT, url], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  child.stdout.on("data", (chunk) => {
    output += chunk;
  });
  expect(await new Promise((resolve) => child.on("close", resolve))).toBe(0);
  const { extra, longest } = JSON.parse(output);
  expect(seen.bytes).toBeGreaterThan(190 * MB);
  expect(extra).toBeLessThan(2 * seen.bytes);
  expect(longest).toBeLessThan(1 * MB);
});
