// What ready losses tell besides the loss, against small numbers worked out by hand.
import { expect, test } from "vitest";
import type { Loss } from "../../src/loss/define.ts";
import { opd } from "../../src/losses/distillation.ts";
import { grpo, gspo } from "../../src/losses/group-relative.ts";
import { entropyProxy } from "../../src/losses/penalties.ts";
import { cispo, ppo, reinforce } from "../../src/losses/policy-gradient.ts";
import { dpo, xpo } from "../../src/losses/preference.ts";
import { orpo, tpo } from "../../src/losses/reference-free.ts";
import { gmpo, rloo } from "../../src/losses/sequence-policy.ts";
import { dppo } from "../../src/losses/trust-region.ts";
import { bco, kto } from "../../src/losses/unpaired.ts";
import { useEngine } from "../engine/helpers.ts";
import { batchOf, type Given, runLoss } from "./helpers.ts";

const held = useEngine();
const run = (loss: Loss, given: Given) => runLoss(held.engine, loss, given);

/** Two samples, whose ratios are 2 and 1, and 1/2. */
const MOVED: Given = {
  logprobs: [[-1, -2], [-3]],
  inputs: { old: [[-1 - Math.LN2, -2], [-3 + Math.LN2]], advantages: [1, -1] },
};
const close = (expected: Record<string, number>) =>
  Object.fromEntries(Object.entries(expected).map(([name, value]) => [name, expect.closeTo(value, 12)]));

test("ratios, clipped shares, divergences, sample size", async () => {
  const { metrics, loss } = await run(ppo(), MOVED);
  expect(metrics).toEqual(
    close({
      ratioMean: 3.5 / 3,
      ratioMax: 2,
      clipFractionLow: 1 / 3,
      clipFractionHigh: 1 / 3,
      approxKlK1: 0,
      approxKlK2: Math.LN2 ** 2 / 3,
      approxKlK3: 3.5 / 3 - 1,
      effectiveSampleSize: 3.5 ** 2 / (3 * 5.25),
      entropyProxy: 2,
      zeroVarianceGroups: 0,
    }),
  );
  // -1.2 and -1, clipped from above, and 0.8, clipped from below.
  expect(loss).toBeCloseTo((-1.2 - 1 + 0.8) / 3, 12);
});

test("ratios of sequences are counted by sample", async () => {
  const { metrics } = await run(gspo({ clipLow: 0.8, clipHigh: 1.2 }), MOVED);
  expect(metrics).toMatchObject(
    close({
      ratioMean: (Math.SQRT2 + 0.5) / 2,
      ratioMax: Math.SQRT2,
      clipFractionLow: 0.5,
      clipFractionHigh: 0.5,
      approxKlK3: 3.5 / 3 - 1,
    }),
  );
  expect((await run(rloo(), MOVED)).metrics).toMatchObject(close({ ratioMean: 1.25, ratioMax: 2 }));
  expect((await run(gmpo(), MOVED)).metrics).toMatchObject(
    close({ ratioMax: Math.exp(0.2), clipFractionLow: 1 / 3, clipFractionHigh: 1 / 3 }),
  );
});

test("no NaN where squares of ratios overflow", async () => {
  const { metrics, loss } = await run(ppo(), {
    logprobs: [[-1, -1]],
    inputs: { old: [[-101, -1]], advantages: [1] },
    precision: "float32",
  });
  expect(loss).toBeCloseTo(-1.1, 6);
  expect(metrics).toMatchObject({ ratioMax: Infinity, effectiveSampleSize: 0, clipFractionHigh: 0.5 });
});

test("groups without variance, and groups of empty samples", async () => {
  const { metrics } = await run(reinforce(), {
    logprobs: [[-1], [-1], [-2], [-2], [-1], [-1]],
    weights: [[1], [1], [1], [1], [0], [0]],
    groups: 2,
    inputs: { advantages: [0, 0, 1, -1, 1, -1] },
  });
  expect(metrics).toEqual({ entropyProxy: 1.5, zeroVarianceGroups: 1 });
});

test("the penalty is reported without its weight, and is a term", async () => {
  const loss = grpo({ kl: { coef: 0.5, estimator: "k2" }, reduction: "token_mean" });
  const given = { ...MOVED, inputs: { ...MOVED.inputs, reference: [[-2, -2], [-1]] } };
  const alone = await run(grpo({ reduction: "token_mean" }), MOVED);
  const penalised = await run(loss, given);
  expect(penalised.metrics).toMatchObject({ kl: expect.closeTo((0.5 + 0 + 2) / 3, 12) });
  expect(penalised.loss - alone.loss).toBeCloseTo(2.5 / 6, 12);
  const { terms } = await held.engine.inspect(loss, await batchOf(given));
  expect(terms.policy.value).toBeCloseTo(alone.loss, 12);
  expect(terms.kl.value).toBeCloseTo(2.5 / 6, 12);
  // A parameter, so that it may be raised from step to step.
  const raised = await run(loss, { ...given, params: { klCoef: 1 } });
  expect(raised.loss - alone.loss).toBeCloseTo(2.5 / 3, 12);
});

test("constant weights have their shares", async () => {
  const p = dppo({ deltaLow: 0.01, deltaHigh: 0.01 });
  // exp(-1) has risen by half of itself, exp(-2) has stayed, exp(-3) has fallen by as much as it is.
  expect((await run(p, MOVED)).metrics).toMatchObject({ kept: expect.closeTo(1 / 3, 12) });
  expect((await run(cispo(), MOVED)).metrics).toMatchObject({ clipFractionHigh: 0, clipFractionLow: 0 });
});

test("what distillation has left to learn", async () => {
  const { metrics, loss } = await run(opd({ coef: 2 }), {
    logprobs: [[-1, -2]],
    inputs: { old: [[-1, -2]], teacher: [[-0.5, -1]] },
  });
  expect(metrics).toMatchObject({ teacherKl: -0.75 });
  expect(loss).toBe(-3);
});

/** The chosen sample's log-ratio is 2, the rejected one's -1. */
const PAIR: Given = {
  logprobs: [
    [-4, -6],
    [-7, -8],
  ],
  groups: 2,
  inputs: {
    reference: [
      [-6, -6],
      [-7, -7],
    ],
  },
};

test("rewards and margins of pairs", async () => {
  const { loss, metrics, gradients } = await run(dpo(), PAIR);
  expect(metrics).toEqual(
    close({
      accuracy: 1,
      margin: 0.3,
      chosenReward: 0.2,
      rejectedReward: -0.1,
      chosenLogprob: -10,
      rejectedLogprob: -15,
      nll: 5,
    }),
  );
  expect(loss).toBeCloseTo(0.554355, 6);
  expect(gradients[0]).toEqual([expect.closeTo(-0.0425557, 7), expect.closeTo(-0.0425557, 7)]);
  expect(gradients[1]).toEqual([expect.closeTo(0.0425557, 7), expect.closeTo(0.0425557, 7)]);
});

test("a policy that is its reference", async () => {
  const reference = PAIR.inputs!.reference as number[][];
  const { loss, metrics, gradients } = await run(dpo(), { ...PAIR, logprobs: reference });
  expect(loss).toBeCloseTo(Math.LN2, 12);
  expect(metrics.accuracy).toBe(0);
  expect(gradients.flat()).toEqual([-0.05, -0.05, 0.05, 0.05].map((value) => expect.closeTo(value, 12)));
});

test("the terms of a mixture add up", async () => {
  const loss = dpo({ type: { sigmoid: 0.8, bco_pair: 0.2 }, nllWeight: 1 });
  const { terms, loss: total } = await held.engine.inspect(loss, await batchOf(PAIR));
  expect(Object.keys(terms)).toEqual(["sigmoid", "bco_pair", "nll"]);
  expect(terms.sigmoid!.value).toBeCloseTo(0.8 * 0.554355, 6);
  expect(terms.nll!.value).toBeCloseTo(5, 12);
  expect(Object.values(terms).reduce((sum, { value }) => sum + value, 0)).toBeCloseTo(total, 12);
});

test("odds, gold and games", async () => {
  const odds = (a: number) => a - Math.log(1 - Math.exp(a));
  const { metrics } = await run(orpo(), { ...PAIR, inputs: {} });
  expect(metrics).toMatchObject(close({ logOdds: odds(-5) - odds(-7.5), chosenReward: -0.5, nll: 5 }));
  const triple = { logprobs: [[-1], [-2], [-0.5]], groups: 3 };
  expect((await run(tpo(), triple)).metrics).toMatchObject(close({ nll: 0.5, margin: 0.01 }));
  const lost = await run(xpo(), { ...PAIR, inputs: { ...PAIR.inputs, policyWins: [0] } });
  expect(lost.metrics).toEqual(close({ margin: -0.3, policyWins: 0 }));
});

/** Log-ratios 2, -1 and 0.5; the last serves the baseline alone. */
const LABELLED: Given = {
  logprobs: [[-1], [-4], [-1]],
  inputs: { reference: [[-3], [-3], [-1.5]], labels: [1, -1, 0] },
};

test("rewards of labelled samples, and their baseline", async () => {
  const { metrics, loss, gradients } = await run(kto(), LABELLED);
  expect(metrics).toEqual(
    close({ desirableReward: 0.2, undesirableReward: -0.1, margin: 0.3, accuracy: 1, kl: 0.5 }),
  );
  const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
  expect(loss).toBeCloseTo((sigmoid(-0.15) + sigmoid(-0.15)) / 2, 12);
  expect(gradients[2]).toEqual([0]);
});

test("a class alone has a mean of its own", async () => {
  const inputs = { ...LABELLED.inputs, labels: [1, 1, 0] };
  expect((await run(kto(), { ...LABELLED, inputs })).metrics).toMatchObject(
    close({ desirableReward: 0.05, undesirableReward: 0, accuracy: 0.5 }),
  );
});

test("the shift of BCO is a running mean that the caller hands on", async () => {
  const first = await run(bco(), LABELLED);
  expect(first.metrics.shift).toBeCloseTo(0.05, 12);
  const params = { seenMean: first.metrics.shift!, seenCount: 2 };
  const inputs = { ...LABELLED.inputs, labels: [1, 0, 0] };
  const second = await run(bco(), { ...LABELLED, inputs, params });
  expect(second.metrics.shift).toBeCloseTo((2 * 0.05 + 0.2) / 3, 12);
});

test("the entropy proxy is the mean of -l", async () => {
  const { loss, metrics } = await run(entropyProxy({ coef: 0.5 }), { logprobs: [[-1, -3]] });
  expect([loss, metrics.entropyProxy]).toEqual([-1, 2]);
});
