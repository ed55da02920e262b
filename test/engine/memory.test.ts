// Memory levels off: of a thousand runs with ragged lengths, and of engines and results that are dropped.
import { expect, it } from "vitest";
import { createBatch } from "../../src/engine/batch.ts";
import { createEngine } from "../../src/engine/engine.ts";
import { defineLoss } from "../../src/loss/define.ts";
import { seededRandom } from "../helpers.ts";
import { collectGarbage, useEngine } from "./helpers.ts";

const held = useEngine();
const MIB = 2 ** 20;
const loss = defineLoss({ loss: ({ logprobs }) => logprobs.exp().square().mean("sample").mean() });

const resident = () => {
  collectGarbage();
  return process.memoryUsage().rss;
};

it("of a thousand runs with ragged lengths levels off", { timeout: 120_000 }, async () => {
  const random = seededRandom(3);
  const run = async (count: number) => {
    for (let i = 0; i < count; i++) {
      const weights = Array.from({ length: 8 }, () =>
        new Float32Array(1 + Math.floor(4096 * random())).fill(1),
      );
      const batch = await createBatch({ weights, logprobs: weights.map((row) => row.map(() => -random())) });
      await held.engine.run(loss, batch);
    }
  };
  await run(300);
  const before = resident();
  await run(1000);
  // A run's tensors are about 1 MiB: a leak of a tenth of a run would show as 100 MiB.
  expect((resident() - before) / MIB).toBeLessThan(64);
});

it("of failed and stopped runs levels off", { timeout: 120_000 }, async () => {
  const root = defineLoss({ loss: ({ logprobs }) => logprobs.sqrt().mean() });
  const row = new Float32Array(1 << 17);
  const batch = await createBatch({ weights: [row.map(() => 1)], logprobs: [row.map(() => -1)] });
  const run = async (count: number) => {
    for (let i = 0; i < count; i++) {
      await held.engine.run(root, batch).catch(() => {});
      const controller = new AbortController();
      const stopped = held.engine.run(loss, batch, { signal: controller.signal });
      controller.abort();
      await stopped.catch(() => {});
    }
  };
  await run(100);
  const before = resident();
  await run(300);
  expect((resident() - before) / MIB).toBeLessThan(64);
});

it("of engines that come and go levels off, disposed of or not", { timeout: 120_000 }, async () => {
  const batch = await createBatch({ weights: [[1]], logprobs: [[-1]] });
  const use = async (count: number) => {
    for (let i = 0; i < count; i++) {
      const engine = await createEngine({ device: "cpu", threads: 2 });
      await engine.run(loss, batch);
      if (i % 2 === 0) engine.dispose();
      if (i % 50 === 0) collectGarbage();
    }
  };
  await use(100);
  const before = resident();
  await use(400);
  expect((resident() - before) / MIB).toBeLessThan(64);
});
