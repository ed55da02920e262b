// Sums of losses: the same numbers as one loss with the same terms.
import { describe, expect, test } from "vitest";
import { defineLoss, perSample } from "../../src/loss/define.ts";
import { combine } from "../../src/losses/combine.ts";
import { grpo } from "../../src/losses/group-relative.ts";
import { entropyProxy, klPenalty } from "../../src/losses/penalties.ts";
import { ppo } from "../../src/losses/policy-gradient.ts";
import { dpo } from "../../src/losses/preference.ts";
import { crossEntropy, regularizedSft } from "../../src/losses/supervised.ts";
import { useEngine } from "../engine/helpers.ts";
import { batchOf, runLoss } from "./helpers.ts";

const held = useEngine();
const given = {
  logprobs: [
    [-1, -2],
    [-3, -0.5],
  ],
  groups: 2,
  inputs: {
    old: [
      [-1.25, -2],
      [-3, -0.75],
    ],
    reference: [
      [-1, -1.5],
      [-2, -0.5],
    ],
    advantages: [1, -0.5],
  },
};

describe("combine", () => {
  test("a policy and a penalty are the policy with its penalty", async () => {
    const reduction = "token_mean";
    const kl = { coef: 0.1, estimator: "k3", timesRatio: true } as const;
    const whole = await runLoss(held.engine, grpo({ reduction, kl }), given);
    const parts = combine({ policy: grpo({ reduction }), kl: klPenalty({ reduction, ...kl }) });
    const sum = await runLoss(held.engine, parts, given);
    expect(sum.loss).toBeCloseTo(whole.loss, 12);
    sum.gradients.flat().forEach((value, i) => {
      expect(value).toBeCloseTo(whole.gradients.flat()[i]!, 12);
    });
    expect(sum.metrics["kl.kl"]).toBeCloseTo(whole.metrics.kl!, 12);
    expect(sum.metrics["policy.ratioMax"]).toBe(whole.metrics.ratioMax);
  });

  test("weights, parameters, metrics and terms bear the names of the parts", async () => {
    const loss = combine(
      { preference: dpo({ beta: 0.2 }), sft: regularizedSft(), entropy: entropyProxy() },
      { preference: 2, entropy: 0 },
    );
    expect(loss.params).toEqual({
      "preference.weight": 2,
      "preference.beta": 0.2,
      "sft.weight": 1,
      "sft.beta": 0.1,
      "entropy.weight": 0,
      "entropy.coef": 0.01,
    });
    const separate = await Promise.all(
      [dpo({ beta: 0.2 }), regularizedSft()].map((part) => runLoss(held.engine, part, given)),
    );
    const [preference, sft] = separate.map((part) => part.loss) as [number, number];
    const batch = await batchOf(given);
    const { loss: total, metrics } = await held.engine.run(loss, batch, { dtype: "float64" });
    expect(total).toBeCloseTo(2 * preference + sft, 12);
    expect(metrics.preference).toBeCloseTo(preference, 12);
    expect(metrics["preference.accuracy"]).toBe(separate[0]!.metrics.accuracy);
    const params = { "preference.weight": 0, "sft.beta": 0 };
    const { loss: plain } = await held.engine.run(loss, batch, { dtype: "float64", params });
    expect(plain).toBeCloseTo(1.625, 12);
    const { terms } = await held.engine.inspect(loss, batch);
    expect(terms.preference.value).toBeCloseTo(2 * preference, 12);
    expect(terms.entropy.value).toBeCloseTo(0, 12);
    expect(terms.entropy.gradientNorm).toBe(0);
  });

  test("parts keep the lines that made them, and are traced once where they are the same", () => {
    const loss = combine({ a: crossEntropy(), b: crossEntropy() });
    expect(loss.graph.nodes.filter(({ op }) => op === "neg")).toHaveLength(1);
    expect(loss.graph.nodes.find(({ op }) => op === "neg")!.source).toContain("supervised.ts");
  });

  test("inputs of one name must be of one axis", () => {
    const rewarded = defineLoss({
      inputs: { old: perSample() },
      loss: ({ logprobs, old }) => logprobs.mul(old).mean(),
    });
    expect(() => combine({ policy: ppo(), rewarded })).toThrow(
      "combine.rewarded: expected the input old per token, as of the losses before it, got it per sample",
    );
    expect(() => combine({ policy: ppo() }, { polcy: 1 } as object)).toThrow("did you mean policy?");
    expect(() => combine({ policy: ppo() }, { policy: Number.NaN })).toThrow("combine.weights.policy");
  });
});
