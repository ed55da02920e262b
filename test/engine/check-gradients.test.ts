// The gradient checker: right gradients pass, wrong ones fail, kinks are kinks.
import { describe, expect, it } from "vitest";
import { createBatch } from "../../src/engine/batch.ts";
import { checkInputs } from "../../src/engine/check-gradients.ts";
import { defineLoss, perSample, perToken } from "../../src/loss/define.ts";
import { useEngine } from "./helpers.ts";

const held = useEngine();

const grpo = defineLoss({
  inputs: { old: perToken(), reference: perToken(), advantages: perSample() },
  params: { clip: 0.2, beta: 0.04 },
  loss: ({ logprobs, old, reference, advantages, clip, beta }) => {
    const ratio = logprobs.sub(old).exp();
    const clipped = ratio.clamp(clip.neg().add(1), clip.add(1));
    const policy = ratio.mul(advantages).minimum(clipped.mul(advantages)).neg();
    const difference = reference.sub(logprobs);
    return policy.add(difference.exp().sub(difference).sub(1).mul(beta)).mean("sample").mean();
  },
});
const batch = (logprobs: number[][]) =>
  createBatch({
    weights: [
      [0, 1, 1],
      [1, 1, 0],
    ],
    logprobs,
    inputs: {
      old: [
        [9, -1.05, -2.4],
        [-0.31, -1, 9],
      ],
      reference: [
        [9, -1.2, -2],
        [-0.5, -1.5, 9],
      ],
      advantages: [1, -0.7],
    },
  });
const smooth = () =>
  batch([
    [9, -1, -2],
    [-0.3, -1.5, 9],
  ]);

describe("checkGradients", () => {
  it("passes a right loss for each of its inputs, float32 batches included", async () => {
    const { passed, inputs } = await held.engine.checkGradients(grpo, await smooth());
    expect(passed).toBe(true);
    expect(inputs.map(({ name }) => name)).toEqual([
      "logprobs",
      "weights",
      "old",
      "reference",
      "advantages",
      "clip",
      "beta",
    ]);
    expect(inputs.map(({ checked }) => checked)).toEqual([4, 4, 4, 4, 2, 1, 1]);
    for (const { relativeError, kinks } of inputs) {
      expect(relativeError).toBeLessThan(1e-6);
      expect(kinks).toBe(0);
    }
  });

  it("holds detached values fixed, as gradients do", async () => {
    const straightThrough = defineLoss({
      loss: ({ logprobs }) => {
        const half = logprobs.square().mul(0.5);
        return half.sub(half.detach()).add(logprobs.exp().detach()).sum();
      },
    });
    const cispo = defineLoss({
      inputs: { old: perToken() },
      loss: ({ logprobs, old }) => logprobs.sub(old).exp().clamp(0.5, 2).detach().mul(logprobs).mean(),
    });
    expect((await held.engine.checkGradients(straightThrough, await smooth())).passed).toBe(true);
    expect((await held.engine.checkGradients(cispo, await smooth())).passed).toBe(true);
  });

  it("reports kinks as kinks, with their place", async () => {
    const clamped = defineLoss({ loss: ({ logprobs }) => logprobs.clamp(-1, -1).add(logprobs.abs()).sum() });
    const given = await createBatch({ weights: [[0, 1, 1, 1]], logprobs: [[9, 0, -1, -2]] });
    const { passed, inputs } = await held.engine.checkGradients(clamped, given);
    expect(passed).toBe(true);
    expect(inputs[0]).toMatchObject({ name: "logprobs", checked: 3, kinks: 2 });
    const kinks = inputs[0]!.worst.filter(({ kink }) => kink);
    expect(kinks.map(({ sample, position }) => [sample, position]).sort()).toEqual([
      [0, 1],
      [0, 2],
    ]);
  });

  it("fails a wrong gradient and names the worst position", async () => {
    const loss = defineLoss({ loss: ({ logprobs }) => logprobs.exp().sum() });
    const contents = {
      layout: {
        rowLengths: Uint32Array.of(3),
        rowOffsets: Float64Array.of(0, 3),
        runCounts: Uint32Array.of(1),
        runs: Uint32Array.of(1, 2),
        groupSizes: Uint32Array.of(1),
        tokens: 2,
        emptySamples: 0,
      },
      precision: "float64" as const,
      inputs: new Map(),
    };
    // An executor whose second gradient is off by a hundredth.
    const wrong = async ({ inputs }: { inputs: readonly ArrayLike<number>[] }) => {
      const [x, y] = [inputs[0]![0]!, inputs[0]![1]!];
      return {
        loss: Math.exp(x) + Math.exp(y),
        metrics: [],
        gradients: Float64Array.of(0, Math.exp(x), Math.exp(y) * 1.01).buffer,
        outputs: [new Float64Array(2), new Float64Array(2)],
      };
    };
    const inputs = [Float64Array.of(-1, -2), Float64Array.of(1, 1)];
    const { passed, inputs: checked } = await checkInputs(loss as never, contents, inputs, {}, wrong);
    expect(passed).toBe(false);
    expect(checked[0]!.worst[0]).toMatchObject({ sample: 0, position: 2, kink: false });
    expect(checked[1]).toMatchObject({ name: "weights", passed: true });
  });

  it("does not take rounding for an error, or a label that decides for a slope", async () => {
    const given = await createBatch({
      weights: [
        [1, 1],
        [1, 1],
      ],
      logprobs: [
        [-1.1, -2.3],
        [-1.1, -2.3],
      ],
      groups: 2,
      inputs: { rewards: [1, 0], offset: [1e3, 1e3] },
    });
    const centred = defineLoss({
      inputs: { rewards: perSample() },
      loss: ({ logprobs, rewards }) =>
        rewards.sub(rewards.mean("group")).scale(logprobs.mean("sample")).neg().mean(),
    });
    const offset = defineLoss({
      inputs: { offset: perSample() },
      loss: ({ logprobs, offset }) => logprobs.exp().mul(1e-3).mean().add(offset.mean()),
    });
    const decided = defineLoss({
      inputs: { rewards: perSample() },
      loss: ({ logprobs, rewards }) => {
        const sums = logprobs.exp().sum("sample");
        return rewards.eq(1).where(sums.mul(2), sums.neg()).mean();
      },
    });
    expect(await held.engine.checkGradients(centred, given)).toMatchObject({ passed: true });
    expect(await held.engine.checkGradients(offset, given)).toMatchObject({ passed: true });
    const { passed, inputs } = await held.engine.checkGradients(decided, given);
    expect(passed).toBe(true);
    expect(inputs.map(({ name, kinks }) => [name, kinks])).toEqual([
      ["logprobs", 0],
      ["weights", 0],
      ["rewards", 1],
    ]);
  });

  it("tries evenly spaced elements of large inputs", async () => {
    const loss = defineLoss({ loss: ({ logprobs }) => logprobs.square().mean() });
    const large = await createBatch({
      weights: [new Float32Array(5000).fill(1)],
      logprobs: Float32Array.from({ length: 5000 }, (_, i) => -i / 5000),
    });
    const { passed, inputs } = await held.engine.checkGradients(loss, large, { elements: 20 });
    expect(passed).toBe(true);
    expect(inputs[0]!.checked).toBe(20);
  });

  it.each([[{ step: 0 }], [{ tolerance: -1 }], [{ elements: Number.NaN }]])("refuses %j", async (options) => {
    await expect(held.engine.checkGradients(grpo, await smooth(), options)).rejects.toMatchObject({
      code: "ERR_INPUT",
    });
  });
});
