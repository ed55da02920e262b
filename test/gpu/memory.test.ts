// Memory of runs on a GPU: what is in flight is not mixed up, and what is done is given back.
import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createBatch } from "../../src/engine/batch.ts";
import { loadBinding, type NativeEngine } from "../../src/engine/binding.ts";
import { createEngine, type Engine } from "../../src/engine/engine.ts";
import { defineLoss } from "../../src/loss/define.ts";
import { NO_GPU } from "../engine/gpu.ts";
import { collectGarbage, settles } from "../engine/helpers.ts";
import { chain, request } from "../engine/native.mjs";
import { seededRandom } from "../helpers.ts";

const MIB = 2 ** 20;

/** MiB in use on all GPUs, by everybody. */
function usedOnGpus(): number {
  const text = execFileSync("nvidia-smi", ["--query-gpu=memory.used", "--format=csv,noheader,nounits"]);
  return text
    .toString()
    .trim()
    .split("\n")
    .reduce((sum, line) => sum + Number(line), 0);
}

describe.skipIf(NO_GPU !== undefined)("on cuda", () => {
  let engine: Engine;
  let native: NativeEngine;
  beforeAll(async () => {
    engine = await createEngine({ device: "cuda" });
    native = new (loadBinding().Engine)({ device: "cuda", threads: 2 });
    await native.open().promise;
  });
  afterAll(() => {
    engine.dispose();
    native.dispose();
  });

  it("arrays may be changed as soon as their run has settled", async () => {
    const depth = 8;
    const tokens = 1 << 16;
    const program = loadBinding().compile(chain(depth));
    const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
    /** The mean of the chained sigmoids, all inputs alike, and the gradient of each. */
    const expected = (x: number) => {
      let slope = 1;
      for (let i = 0; i < depth; i++) {
        x = sigmoid(x);
        slope *= x * (1 - x);
      }
      return { loss: x, gradient: slope / tokens };
    };
    const runOf = (run: number) => (run % 7) - 3;
    const begin = async (run: number) => {
      const given = request(tokens);
      const [input] = given.inputs;
      input!.fill(runOf(run));
      const { loss } = await native.run(program, given).promise;
      const gradients = new Float32Array(given.output).slice();
      input!.fill(Number.NaN);
      new Float32Array(given.output).fill(Number.NaN);
      return { loss, lowest: Math.min(...sample(gradients)), highest: Math.max(...sample(gradients)) };
    };
    // Three at a time, so that one is always queued behind a run that settles.
    for (let run = 0; run < 300; run += 3) {
      const results = await Promise.all([0, 1, 2].map((i) => begin(run + i)));
      results.forEach(({ loss, lowest, highest }, i) => {
        const { loss: value, gradient } = expected(runOf(run + i));
        expect(loss).toBeCloseTo(value, 5);
        expect(lowest / gradient).toBeCloseTo(1, 3);
        expect(highest / gradient).toBeCloseTo(1, 3);
      });
    }
  });

  it("two thousand ragged runs level off, here and on the GPU", { timeout: 120_000 }, async () => {
    const loss = defineLoss({ loss: ({ logprobs }) => logprobs.exp().square().mean("sample").mean() });
    const random = seededRandom(3);
    const run = async (count: number) => {
      for (let i = 0; i < count; i++) {
        const weights = Array.from({ length: 8 }, () =>
          new Float32Array(1 + Math.floor(4096 * random())).fill(1),
        );
        const batch = await createBatch({
          weights,
          logprobs: weights.map((row) => row.map(() => -random())),
        });
        await engine.run(loss, batch);
      }
    };
    const used = () => {
      collectGarbage();
      return { here: process.memoryUsage().rss / MIB, gpus: usedOnGpus() };
    };
    await run(400);
    const before = used();
    const { engines, programs } = loadBinding().liveObjects();
    await run(1600);
    const after = used();
    // A run's arrays are about 1 MiB in all: a leak of a tenth of them would show as 160 MiB.
    expect(after.here - before.here).toBeLessThan(64);
    expect(after.gpus - before.gpus).toBeLessThan(128);
    await settles(() => loadBinding().liveObjects(), { engines, programs, runs: 0 });
  });
});

/** Some of the numbers, the first and the last among them. */
function sample(numbers: Float32Array): number[] {
  return Array.from({ length: 1024 }, (_, i) => numbers[Math.round((i * (numbers.length - 1)) / 1023)]!);
}
