// Inputs at which plainly written losses give NaN, infinities or the wrong gradient.
import { expect, test } from "vitest";
import type { Loss } from "../../src/loss/define.ts";
import { grpo, gspo } from "../../src/losses/group-relative.ts";
import { importanceSampling, ppo } from "../../src/losses/policy-gradient.ts";
import { dpo } from "../../src/losses/preference.ts";
import { orpo, simpo } from "../../src/losses/reference-free.ts";
import { crossEntropy, regularizedSft, unlikelihood } from "../../src/losses/supervised.ts";
import { dppo } from "../../src/losses/trust-region.ts";
import { useEngine } from "../engine/helpers.ts";
import { type Given, runLoss } from "./helpers.ts";

const held = useEngine();
const run = (loss: Loss, given: Given) => runLoss(held.engine, loss, given);

const overflowing = (advantage: number): Given => ({
  logprobs: [[0]],
  inputs: { old: [[-100]], advantages: [advantage] },
  precision: "float32",
});

test.each([
  [1, -1.2],
  [0, 0],
])("a ratio beyond float32 with advantage %d costs %d and has no gradient", async (advantage, expected) => {
  const { loss, gradients } = await run(ppo(), overflowing(advantage));
  expect(loss).toBeCloseTo(expected, 6);
  expect(gradients[0]![0]).toBeCloseTo(0, 12);
});

test("one that nothing bounds is an error that names the token, unless a bound is set", async () => {
  await expect(run(ppo(), overflowing(-1))).rejects.toMatchObject({
    code: "ERR_NON_FINITE",
    sample: 0,
    position: 0,
  });
  expect((await run(ppo({ dualClip: 3 }), overflowing(-1))).loss).toBe(3);
  expect((await run(grpo({ delta: 4 }), overflowing(-1))).loss).toBe(4);
  const clamped = await run(ppo({ logRatioClamp: 20 }), overflowing(-1));
  expect(clamped.loss / Math.exp(20)).toBeCloseTo(1, 6);
  expect(clamped.gradients).toEqual([[0]]);
  const passing = await run(
    importanceSampling({ logRatioClamp: 20, clampGradient: "pass" }),
    overflowing(-1),
  );
  expect(passing.gradients[0]![0]! / Math.exp(20)).toBeCloseTo(1, 6);
});

test("a masked token may hold anything", async () => {
  const correction = { mode: "token_mask", max: 2 } as const;
  const { loss, gradients } = await run(grpo({ correction, kl: {} }), {
    logprobs: [[-1, Number.NaN, -1e30]],
    weights: [[1, 0, 0]],
    inputs: { old: [[-1, -1e30, 5]], reference: [[-1, 0, 0]], rollout: [[-1, 0, 0]], advantages: [2] },
    precision: "float32",
  });
  expect(loss).toBe(-2);
  expect(gradients).toEqual([[-2, 0, 0]]);
});

test.each([0, 1e-7, 1e-3])(
  "a chosen answer of average log-probability %d is no trouble to ORPO",
  async (l) => {
    for (const logprobs of [
      [[l], [-3]],
      [[-3], [l]],
    ]) {
      const { loss, gradients } = await run(orpo(), { logprobs, groups: 2, precision: "float32" });
      expect(Number.isFinite(loss)).toBe(true);
      expect(gradients.flat().every(Number.isFinite)).toBe(true);
    }
    const { metrics } = await run(orpo(), { logprobs: [[l], [-3]], groups: 2 });
    const ofRejected = -3 - Math.log1p(-Math.exp(-3));
    expect(metrics.logOdds).toBeCloseTo(l + 13.8155 - ofRejected, 3);
  },
);

test.each([0, 1e-7])("a certain token of log-probability %d is no trouble to unlikelihood", async (l) => {
  const { loss, gradients } = await run(unlikelihood(), { logprobs: [[l, -1]], precision: "float32" });
  expect(loss).toBeCloseTo((13.8155 - Math.log1p(-Math.exp(-1))) / 2, 3);
  expect(gradients[0]![0]).toBe(0);
});

test.each([0, 1e-7])("nor one of %d to the divergence of DPPO", async (l) => {
  const { loss } = await run(dppo({ divergence: "kl" }), {
    logprobs: [[l, -1]],
    inputs: { old: [[-0.5, l]], advantages: [1] },
    precision: "float32",
  });
  expect(Number.isFinite(loss)).toBe(true);
});

test("an empty sample counts 0 in the means of samples", async () => {
  const empty = {
    logprobs: [
      [0, -1, -2],
      [0, 0, 0],
    ],
    weights: [
      [0, 1, 1],
      [0, 0, 0],
    ],
  };
  const { loss, gradients, emptySamples } = await run(regularizedSft({ beta: 0 }), {
    ...empty,
    inputs: { reference: empty.logprobs },
  });
  expect(loss).toBe(0.75);
  expect(gradients).toEqual([
    [0, -0.25, -0.25],
    [0, 0, 0],
  ]);
  expect(emptySamples).toBe(1);
  const pair = { ...empty, groups: 2, inputs: { reference: empty.logprobs } };
  for (const loss of [dpo(), dpo({ type: "ipo" }), simpo(), orpo()]) {
    const { gradients } = await run(loss, pair);
    expect(gradients.flat().every(Number.isFinite)).toBe(true);
  }
  const policy = { ...empty, inputs: { old: empty.logprobs, advantages: [1, -1] } };
  expect((await run(gspo(), policy)).loss).toBe(-0.5);
});

test("averages are over what is trained, not over the row", async () => {
  const { loss, gradients } = await run(crossEntropy(), {
    logprobs: [[0, 0, -2, -4]],
    weights: [[0, 0, 1, 1]],
  });
  expect(loss).toBe(3);
  expect(gradients).toEqual([[0, 0, -0.5, -0.5]]);
});

test("a policy against itself has a loss of minus the advantage and a gradient all the same", async () => {
  const logprobs = [[-1, -2]];
  const { loss, gradients } = await run(importanceSampling({ reduction: "token_mean" }), {
    logprobs,
    inputs: { old: logprobs, advantages: [2] },
  });
  expect(loss).toBe(-2);
  expect(gradients).toEqual([[-1, -1]]);
});

test("a batch in parts has the gradients of the whole, given its normalizer", async () => {
  const loss = crossEntropy({ reduction: { type: "constant", normalizer: 3 } });
  const whole = await run(loss, { logprobs: [[-1, -2], [-3]] });
  const parts = [await run(loss, { logprobs: [[-1, -2]] }), await run(loss, { logprobs: [[-3]] })];
  expect(whole.loss).toBe(2);
  expect(parts.flatMap(({ gradients }) => gradients)).toEqual(whole.gradients);
  const later = await run(loss, { logprobs: [[-1, -2], [-3]], params: { normalizer: 6 } });
  expect(later.loss).toBe(1);
});
