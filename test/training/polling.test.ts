// While a loss is computed, other calls of the process go on: results are asked for on time.
import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { createBatch } from "../../src/engine/batch.ts";
import { createEngine } from "../../src/engine/engine.ts";
import { crossEntropy } from "../../src/losses/supervised.ts";
import { completed, PENDING, scriptedSession } from "../client/server.ts";

const POLL_MS = 20;

test("a loss that takes seconds does not keep others from asking for their results", {
  timeout: 60_000,
}, async () => {
  let done = false;
  const times: number[] = [];
  const look = (response: ServerResponse) => {
    times.push(performance.now());
    response.end(JSON.stringify(done ? completed({ weights_version: 1 }) : PENDING));
  };
  const { session } = await scriptedSession([PENDING, ...Array(5000).fill(look)], {
    pollIntervalMs: POLL_MS,
  });
  const engine = await createEngine({ device: "cpu" });
  const row = new Float32Array(2 ** 22).fill(-1);
  const batch = await createBatch({ weights: [row.map(() => 1)], logprobs: [row] });

  const waiting = session.weightsSync();
  const began = performance.now();
  while (performance.now() - began < 2000) await engine.run(crossEntropy(), batch);
  const elapsed = performance.now() - began;
  done = true;
  expect((await waiting).weightsVersion).toBe(1);
  engine.dispose();

  const gaps = times.slice(1).map((time, index) => time - times[index]!);
  expect(Math.max(...gaps)).toBeLessThan(250);
  expect(times.length).toBeGreaterThan(elapsed / (3 * POLL_MS));
});
