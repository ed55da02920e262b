// Policy gradients at their corners: ratios that overflow, rewards that are all alike.
import { describe, expect, it } from "vitest";
import { defineLoss, perSample, perToken } from "../../src/loss/define.ts";
import { groupAdvantages } from "../../src/losses/advantages.ts";
import { EXECUTIONS, useEngines } from "../engine/ops/batch.ts";
import { FAR, OWN, runner } from "./helpers.ts";

const engines = useEngines();

const ppo = defineLoss({
  inputs: { old: perToken(), advantages: perSample() },
  params: { clip: 0.2 },
  loss: ({ logprobs, old, advantages, clip }) => {
    const ratio = logprobs.sub(old).exp();
    const clipped = ratio.clamp(clip.neg().add(1), clip.add(1));
    return advantages.scale(ratio).minimum(clipped.mul(advantages)).neg().mean();
  },
});

describe.each(OWN)("a clipped ratio that overflows, on $executor in $precision,", (execution) => {
  const run = runner(engines, execution);
  const far = FAR[execution.precision];
  const step = (advantage: number) =>
    run(ppo, {
      weights: [[0, 1]],
      logprobs: [[9, 0]],
      inputs: { old: [[9, -far]], advantages: [advantage] },
    });

  it("gives the clipped loss and no gradient where the advantage is positive", async () => {
    const { loss, gradients } = await step(1);
    expect(loss).toBeCloseTo(-1.2, 6);
    expect(gradients).toEqual([[0, 0]]);
  });

  it("gives 0 and no gradient, not NaN, where the advantage is 0", async () => {
    const { loss, gradients } = await step(0);
    expect(Math.abs(loss)).toBe(0);
    expect(gradients).toEqual([[0, 0]]);
  });

  it("is refused with sample, position and log-ratio where the advantage is negative, since nothing bounds it", async () => {
    await expect(step(-1)).rejects.toMatchObject({
      code: "ERR_NON_FINITE",
      sample: 0,
      position: 1,
      op: "exp",
      operands: [far],
    });
  });
});

describe.each(EXECUTIONS)("advantages relative to the group, on $executor in $precision,", (execution) => {
  const run = runner(engines, execution);
  /** The advantages themselves: the gradient of their sum with the log-probabilities. */
  const advantagesOf = async (
    rewards: readonly number[],
    groups: number | readonly number[],
    options?: Parameters<typeof groupAdvantages>[1],
  ) => {
    const loss = defineLoss({
      inputs: { rewards: perSample() },
      loss: ({ logprobs, rewards }) => ({
        loss: logprobs.mul(groupAdvantages(rewards, options)).sum(),
        metrics: { alike: rewards.max("group").eq(rewards.min("group")).count() },
      }),
    });
    const { gradients, metrics } = await run(loss, {
      weights: rewards.map(() => [1]),
      logprobs: rewards.map(() => [-1]),
      groups,
      inputs: { rewards },
    });
    return { advantages: gradients.flat(), alike: metrics.alike };
  };

  it("are 0 where all rewards are equal and in a group of one, and such groups can be counted", async () => {
    // The mean of 0.1, 0.1, 0.1 is not 0.1 in binary.
    const rewards = [1, 1, 1, 1, 0.1, 0.1, 0.1, 0.7];
    for (const options of [{}, { epsilon: 0 }, { correction: 1 }, { normalize: false }] as const) {
      const { advantages, alike } = await advantagesOf(rewards, [4, 3, 1], options);
      expect(advantages).toEqual(rewards.map(() => 0));
      expect(alike).toBe(3);
    }
  });

  it("divide by the standard deviation of the group, or by that estimated from it", async () => {
    const signs = [1, -1, -1, 1];
    for (const [options, size] of [
      [{}, 0.5 / 0.5001],
      [{ correction: 1 }, 0.5 / (Math.sqrt(1 / 3) + 1e-4)],
      [{ epsilon: 0 }, 1],
      [{ normalize: false }, 0.5],
    ] as const) {
      const { advantages, alike } = await advantagesOf([1, 0, 0, 1], 4, options);
      advantages.forEach((value, i) => {
        expect(value).toBeCloseTo(signs[i]! * size, 6);
      });
      expect(alike).toBe(0);
    }
  });
});

it("advantages relative to the group refuse unknown and wrong options", () => {
  const define = (options: object | null) => () =>
    defineLoss({
      inputs: { rewards: perSample() },
      loss: ({ logprobs, rewards }) => logprobs.mul(groupAdvantages(rewards, options as object)).sum(),
    });
  expect(define({ eps: 1 })).toThrow("groupAdvantages.eps: expected one of normalize, correction, epsilon");
  expect(define({ epsilon: -1 })).toThrow(
    "groupAdvantages.epsilon: expected a finite number of at least 0, got -1",
  );
  expect(define({ correction: 2 })).toThrow("std: expected a correction of 0 or 1, got 2");
  expect(define(null)).toThrow("groupAdvantages: expected an object, got null");
});
