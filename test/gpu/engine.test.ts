// The engine on a GPU: choosing it, what it is told to be, and its results beside those of the CPU.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createBatch } from "../../src/engine/batch.ts";
import { toFloat32 } from "../../src/engine/bfloat16.ts";
import { createEngine, type Engine } from "../../src/engine/engine.ts";
import { defineLoss, perSample } from "../../src/loss/define.ts";
import { NO_GPU } from "../engine/gpu.ts";
import { relativeError, seededRandom } from "../helpers.ts";

if (NO_GPU !== undefined) console.log(`tests on cuda are skipped: ${NO_GPU}`);

const loss = defineLoss({
  inputs: { advantages: perSample() },
  loss: ({ logprobs, advantages }) => ({
    loss: logprobs.exp().mul(advantages).mean("sample").mean(),
    metrics: { entropy: logprobs.exp().mul(logprobs).sum().neg(), longest: logprobs.count("sample").max() },
  }),
});

/** Samples of up to `longest` tokens, of which about three in four are trained. */
const randomBatch = (samples: number, longest: number, seed: number) => {
  const random = seededRandom(seed);
  const weights = Array.from({ length: samples }, () =>
    Float32Array.from(
      { length: 1 + Math.floor(longest * random()) },
      (_, i) => +(i === 0 || random() < 0.75),
    ),
  );
  const logprobs = weights.map((row) => row.map(() => -3 * random()));
  return createBatch({ weights, logprobs, inputs: { advantages: weights.map(() => random() - 0.5) } });
};

describe.skipIf(NO_GPU !== undefined)("on cuda", () => {
  let cuda: Engine;
  let cpu: Engine;
  beforeAll(async () => {
    cuda = await createEngine({ device: "cuda" });
    cpu = await createEngine({ device: "cpu", executor: "torch" });
  });
  afterAll(() => {
    cuda.dispose();
    cpu.dispose();
  });

  it("is what auto takes, and says where it is", async () => {
    using chosen = await createEngine();
    for (const { info } of [cuda, chosen]) {
      expect(info).toMatchObject({ device: "cuda:0", executor: "torch", cuda: { state: "ready" } });
      expect(info.cuda.devices).toBeGreaterThan(0);
      expect(info).not.toHaveProperty("fallbackReason");
    }
    expect(chosen.info.requestedDevice).toBe("auto");
    const { devices } = cuda.info.cuda;
    using last = await createEngine({ device: `cuda:${devices - 1}` });
    expect(last.info.device).toBe(`cuda:${devices - 1}`);
    expect((await last.run(loss, await randomBatch(2, 8, 1))).executor).toBe("torch");
    await expect(createEngine({ device: `cuda:${devices}` })).rejects.toMatchObject({
      code: "ERR_DEVICE",
      reason: "no-device",
    });
  });

  it("agrees with the CPU while both run at once", async () => {
    const batches = await Promise.all(Array.from({ length: 24 }, (_, i) => randomBatch(1 + i, 700, i)));
    const both = batches.flatMap((batch) => [cuda, cpu].map((engine) => engine.run(loss, batch)));
    const results = await Promise.all(both);
    batches.forEach((_, i) => {
      const [got, expected] = [results[2 * i]!, results[2 * i + 1]!];
      expect(got.loss).toBeCloseTo(expected.loss, 6);
      expect(got.metrics.entropy / expected.metrics.entropy).toBeCloseTo(1, 5);
      expect(got.metrics.longest).toBe(expected.metrics.longest);
      const [values, others] = [got, expected].map(({ gradients }) => new Float32Array(gradients.buffer));
      expect(relativeError(values!, others!)).toBeLessThan(2e-6);
    });
  });

  it("rounds gradients to bfloat16", async () => {
    const batch = await randomBatch(5, 300, 7);
    const wide = await cuda.run(loss, batch);
    const narrow = await cuda.run(loss, batch, { dtype: "bfloat16" });
    const values = new Float32Array(wide.gradients.buffer);
    const rounded = toFloat32(new Uint16Array(narrow.gradients.buffer));
    expect(rounded).toHaveLength(values.length);
    rounded.forEach((value, i) => {
      expect(Math.abs(value - values[i]!)).toBeLessThanOrEqual(Math.abs(values[i]!) * 2 ** -8);
    });
  });

  it("names what is not finite, and stays usable", async () => {
    const root = defineLoss({ loss: ({ logprobs }) => logprobs.sqrt().sum() });
    const batch = await createBatch({ weights: [[1], [0, 1]], logprobs: [[4], [9, -2]] });
    await expect(cuda.run(root, batch)).rejects.toMatchObject({
      code: "ERR_NON_FINITE",
      op: "sqrt",
      sample: 1,
      position: 1,
      operands: [-2],
      source: expect.stringMatching(/engine\.test\.ts:\d+:\d+$/),
    });
    const { loss: value, nonFiniteSamples } = await cuda.run(root, batch, { nonFinite: "zero" });
    expect([value, nonFiniteSamples]).toEqual([2, [1]]);
  });

  it("finds its gradients right by central differences", async () => {
    const { passed, inputs } = await cuda.checkGradients(loss, await randomBatch(3, 6, 9));
    expect(passed).toBe(true);
    expect(inputs.map(({ name }) => name)).toContain("logprobs");
  });

  it("stops at a signal, in the queue and in its midst, and when it is disposed of", async () => {
    const batch = await randomBatch(64, 1 << 15, 11);
    const controller = new AbortController();
    const runs = [0, 1, 2].map(() => cuda.run(loss, batch, { signal: controller.signal }));
    controller.abort();
    for (const run of runs) await expect(run).rejects.toMatchObject({ name: "AbortError" });
    expect((await cuda.run(loss, batch)).executor).toBe("torch");

    const engine = await createEngine({ device: "cuda" });
    const running = [0, 1].map(() => engine.run(loss, batch));
    engine.dispose();
    for (const run of running) await expect(run).rejects.toMatchObject({ code: "ERR_DISPOSED" });
  });
});
