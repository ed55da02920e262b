// Memory levels off: of runs with ragged lengths, many and long ones, of failed runs, of engines and results that are
// dropped.
import { expect, it } from "vitest";
import { createBatch } from "../../src/engine/batch.ts";
import { loadBinding } from "../../src/engine/binding.ts";
import { createEngine } from "../../src/engine/engine.ts";
import { defineLoss } from "../../src/loss/define.ts";
import { seededRandom } from "../helpers.ts";
import { collectGarbage, settles, useEngine } from "./helpers.ts";

const held = useEngine();
const MIB = 2 ** 20;
const loss = defineLoss({ loss: ({ logprobs }) => logprobs.exp().square().mean("sample").mean() });

const resident = () => {
  collectGarbage();
  return process.memoryUsage().rss;
};

it("of a hundred thousand steps with ragged lengths levels off", { timeout: 120_000 }, async () => {
  using torch = await createEngine({ device: "cpu", executor: "torch" });
  const random = seededRandom(5);
  const step = async (i: number) => {
    // Mostly some ten tokens, now and then a thousand.
    const longest = i % 97 === 0 ? 1024 : 48;
    const weights = Array.from({ length: 1 + Math.floor(3 * random()) }, () =>
      new Float32Array(1 + Math.floor(longest * random())).fill(1),
    );
    const batch = await createBatch({ weights, logprobs: weights.map((row) => row.map(() => -random())) });
    await (i % 5 === 0 ? torch : held.engine).run(loss, batch);
  };
  const steps = async (count: number) => {
    for (let i = 0; i < count; i++) await step(i);
  };
  await steps(20_000);
  const before = resident();
  const { engines, programs } = loadBinding().liveObjects();
  await steps(80_000);
  // A leak of 200 bytes a step would show.
  expect((resident() - before) / MIB).toBeLessThan(16);
  await settles(() => loadBinding().liveObjects(), { engines, programs, runs: 0 });
});

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

it("of large results that are dropped is given back without being asked for", {
  timeout: 120_000,
}, async () => {
  const row = new Float32Array(MIB);
  row[7] = 1;
  const batch = await createBatch({ weights: [row], logprobs: [row] });
  await held.engine.run(loss, batch);
  const before = resident();
  let most = 0;
  for (let i = 0; i < 1024; i++) {
    await held.engine.run(loss, batch);
    if (i % 16 === 0) most = Math.max(most, process.memoryUsage().rss);
  }
  // Each is 4 MiB.
  expect((most - before) / MIB).toBeLessThan(300);
});
