// Members of groups, and the digits that values keep.
import { describe, expect, it } from "vitest";
import { createBatch } from "../../../src/engine/batch.ts";
import { defineLoss, perSample } from "../../../src/loss/define.ts";
import { relativeError, seededRandom } from "../../helpers.ts";
import { useEngine } from "../helpers.ts";

const held = useEngine();

describe("member", () => {
  const second = defineLoss({ loss: ({ logprobs }) => logprobs.sum("sample").member(1).sum() });

  it("takes the k-th sample of each group", async () => {
    const batch = await createBatch({
      weights: [[1], [1, 1], [1], [1], [1]],
      groups: [2, 3],
      logprobs: [[-1], [-2, -3], [-4], [-5], [-6]],
    });
    const { loss, gradients } = await held.engine.run(second, batch);
    expect(loss).toBe(-10);
    expect([...gradients].map((row) => [...row])).toEqual([[0], [1, 1], [0], [1], [0]]);
  });

  it("names the group that is too small", async () => {
    const batch = await createBatch({
      weights: [[1], [1], [1]],
      groups: [2, 1],
      logprobs: [[-1], [-2], [-3]],
    });
    await expect(held.engine.run(second, batch)).rejects.toMatchObject({
      code: "ERR_INPUT",
      path: "groups",
      message: expect.stringContaining("group 1: expected at least 2 samples, got 1"),
    });
  });
});

describe("precision", () => {
  it("sums float32 tokens in float64", async () => {
    const count = 100_000;
    const logprobs = new Float32Array(count).fill(1);
    logprobs[0] = 1e8;
    const batch = await createBatch({ weights: [new Float32Array(count).fill(1)], logprobs });
    const loss = defineLoss({ loss: ({ logprobs }) => logprobs.sum() });
    expect((await held.engine.run(loss, batch)).loss).toBe(1e8 + count - 1);
  });

  it("keeps values per sample and per batch in float64", async () => {
    const tiny = 2 ** -40;
    const loss = defineLoss({
      inputs: { advantages: perSample() },
      params: { shift: 1 },
      loss: ({ logprobs, advantages, shift }) => logprobs.sum().add(advantages.sub(shift).sum()),
    });
    const batch = await createBatch({ weights: [[1]], logprobs: [[0]], inputs: { advantages: [1 + tiny] } });
    expect((await held.engine.run(loss, batch)).loss).toBe(tiny);
  });

  it("gives gradients of a batch scalar the digits of float64", async () => {
    // d/dx of (x - mean x)^2 summed: the sum over tokens of the inner gradient cancels to 0.
    const random = seededRandom(5);
    const logprobs = Float32Array.from({ length: 50_000 }, () => -10 * random());
    const loss = defineLoss({ loss: ({ logprobs }) => logprobs.sub(logprobs.mean()).square().sum() });
    const batch = await createBatch({ weights: [new Float32Array(50_000).fill(1)], logprobs });
    const { gradients } = await held.engine.run(loss, batch);
    const mean = logprobs.reduce((sum, x) => sum + x, 0) / logprobs.length;
    const expected = [...logprobs].map((x) => 2 * (x - mean));
    expect(relativeError(gradients.row(0), expected)).toBeLessThan(1e-6);
  });
});
