// The event loop stays free: work on 20 million tokens, and libuv's pool beside eight runs.
import { lookup } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { createBatch } from "../../src/engine/batch.ts";
import { createEngine } from "../../src/engine/engine.ts";
import { defineLoss, perToken } from "../../src/loss/define.ts";
import { lateness } from "../helpers.ts";
import { collectGarbage, useEngine } from "./helpers.ts";

const held = useEngine();
const loss = defineLoss({
  inputs: { reference: perToken() },
  params: { beta: 0.1 },
  loss: ({ logprobs, reference, beta }) => {
    const drift = logprobs.sub(reference).square().mean("sample");
    return logprobs.neg().mean("sample").add(drift.mul(beta)).mean();
  },
});

const SAMPLES = 2500;
const TOKENS = 8192;

describe("with 20 million tokens", () => {
  const rows = (value: number) => Array.from({ length: SAMPLES }, () => new Float32Array(TOKENS).fill(value));

  it("a timer of 10 ms is never late by more than 50 ms", { timeout: 120_000 }, async () => {
    const weights = rows(1);
    const logprobs = rows(-1);
    const reference = rows(-2);
    collectGarbage();
    const seen: number[] = [];
    const late = await lateness(async () => {
      const batch = await createBatch({ weights, logprobs, inputs: { reference } });
      const next = await batch.with({ logprobs });
      for (const dtype of ["float32", "bfloat16"] as const) {
        seen.push((await held.engine.run(loss, next, { dtype })).loss);
      }
    });
    expect(seen).toEqual([expect.closeTo(1.1, 6), expect.closeTo(1.1, 6)]);
    expect(late).toBeLessThan(50);
  });

  it("weights in plain arrays and in pieces do not hold it either", { timeout: 120_000 }, async () => {
    const ones = Array<number>(TOKENS).fill(1);
    const holes = ones.map((_, i) => i % 2);
    const weights = Array.from({ length: SAMPLES }, (_, i) => (i % 2 === 0 ? ones : holes));
    const logprobs = Array.from({ length: SAMPLES }, () => ones);
    const late = await lateness(() => createBatch({ weights, logprobs }));
    expect(late).toBeLessThan(50);
  });
});

describe("beside eight runs", () => {
  it("fs and dns still answer at once, and runs take turns", { timeout: 60_000 }, async () => {
    // libuv's pool has 4 threads unless UV_THREADPOOL_SIZE says otherwise: eight runs on it would block it.
    expect(process.env.UV_THREADPOOL_SIZE ?? "4").toBe("4");
    const row = new Float32Array(1 << 20).fill(-1);
    const weights = [new Float32Array(1 << 20).fill(1)];
    const batch = await createBatch({ weights, logprobs: [row], inputs: { reference: [row] } });
    const order: number[] = [];
    // Node by node, so that the runs last longer than what is asked of the pool meanwhile.
    using engine = await createEngine({ device: "cpu", executor: "torch" });
    const runs = Array.from({ length: 8 }, (_, i) => engine.run(loss, batch).finally(() => order.push(i)));
    const start = performance.now();
    await Promise.all([readFile(new URL(import.meta.url)), lookup("localhost")]);
    expect(order.length).toBeLessThan(8);
    expect(performance.now() - start).toBeLessThan(100);
    await Promise.all(runs);
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });
});
