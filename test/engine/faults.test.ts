// Values that are not finite: found before anything is given back, and named by where they began.
import { describe, expect, it } from "vitest";
import { createBatch } from "../../src/engine/batch.ts";
import { defineLoss, perSample, perToken } from "../../src/loss/define.ts";
import { useEngine } from "./helpers.ts";

const held = useEngine();
const sum = defineLoss({ loss: ({ logprobs }) => logprobs.sum() });
const root = defineLoss({ loss: ({ logprobs }) => logprobs.sqrt().sum() });
const small = () => createBatch({ weights: [[0, 1], [1]], logprobs: [[0, -1], [-2]] });

describe("values that are not finite", () => {
  it("names sample, position, op, source line and operands", async () => {
    const loss = defineLoss({
      inputs: { old: perToken() },
      loss: ({ logprobs, old }) => logprobs.sub(old).exp().mean(),
    });
    const batch = await createBatch({
      weights: [
        [0, 1],
        [0, 0, 1, 1],
      ],
      logprobs: [
        [0, -1],
        [0, 0, -1, -2],
      ],
      inputs: {
        old: [
          [0, -1],
          [0, 0, -1, -714],
        ],
      },
    });
    await expect(held.engine.run(loss, batch)).rejects.toMatchObject({
      name: "NonFiniteError",
      code: "ERR_NON_FINITE",
      sample: 1,
      position: 3,
      op: "exp",
      source: expect.stringMatching(/faults\.test\.ts:\d+:\d+$/),
      value: Infinity,
      operands: [712],
      message: expect.stringMatching(
        /^exp \(at .*faults\.test\.ts:\d+:\d+\), sample 1, position 3: expected a finite value, got Infinity = exp\(712\)$/,
      ),
    });
  });

  it("names the sample of a value per sample, and leaves out what an op does not have", async () => {
    const loss = defineLoss({
      inputs: { advantages: perSample() },
      loss: ({ logprobs, advantages }) => logprobs.sum("sample").div(advantages).sum(),
    });
    const batch = await createBatch({
      weights: [[1], [1, 1]],
      logprobs: [[-1], [-1, -1]],
      inputs: { advantages: [1, 0] },
    });
    await expect(held.engine.run(loss, batch)).rejects.toMatchObject({
      op: "div",
      sample: 1,
      position: undefined,
      operands: [-2, 0],
      value: -Infinity,
    });
    const largest = defineLoss({ loss: ({ logprobs }) => logprobs.max("sample").sum() });
    const empty = await createBatch({ weights: [[1], [0]], logprobs: [[-1], [-1]] });
    await expect(held.engine.run(largest, empty)).rejects.toMatchObject({
      op: "max",
      sample: 1,
      operands: undefined,
    });
  });

  it("names the token where only the gradient is not finite", async () => {
    const batch = await createBatch({ weights: [[1, 0, 1]], logprobs: [[4, 0, 0]] });
    await expect(held.engine.run(root, batch)).rejects.toMatchObject({
      message: expect.stringMatching(
        /^the gradient of sqrt \(at .*faults\.test\.ts:\d+:\d+\), sample 0, position 2: expected a finite value, got Infinity = unscale\(1, 0\)$/,
      ),
      loss: 2,
    });
  });

  it("leaves the engine usable", async () => {
    await expect(held.engine.run(root, await small())).rejects.toMatchObject({
      op: "sqrt",
      value: Number.NaN,
    });
    expect((await held.engine.run(sum, await small())).loss).toBe(-3);
  });

  it("are allowed in metrics", async () => {
    const loss = defineLoss({
      loss: ({ logprobs }) => ({
        loss: logprobs.sum(),
        metrics: { perplexity: logprobs.sum().mul(-1000).exp(), odd: logprobs.sum().sqrt() },
      }),
    });
    const { metrics } = await held.engine.run(loss, await small());
    expect(metrics).toEqual({ perplexity: Infinity, odd: Number.NaN });
  });
});
