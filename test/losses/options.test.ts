// Options that ready losses refuse, each by its name, and what they print.
import { expect, test } from "vitest";
import { InputError } from "../../src/errors.ts";
import * as losses from "../../src/losses/index.ts";

/** Options that type checkers would refuse. */
// biome-ignore lint/suspicious/noExplicitAny: these options are wrong on purpose
const build = (name: string, options: object) => (losses as any)[name](options);

const horizon = { type: "fixed_horizon", horizon: 8 };

test.each<[string, object, string, string]>([
  ["crossEntropy", { reduction: "mean" }, "crossEntropy.reduction", '"token_mean"'],
  ["crossEntropy", { reduction: 3 }, "crossEntropy.reduction", "the name of a reduction or an object, got 3"],
  ["crossEntropy", { reduktion: "x" }, "crossEntropy.reduktion", "did you mean reduction?"],
  ["dft", { reduction: { type: "mean" } }, "dft.reduction.type", '"fixed_horizon"'],
  ["dft", { reduction: { type: "fixed_horizon" } }, "dft.reduction.horizon", "got undefined"],
  ["dft", { reduction: { ...horizon, horizon: 0 } }, "dft.reduction.horizon", "above 0, got 0"],
  [
    "dft",
    { reduction: { ...horizon, normalizer: 1 } },
    "dft.reduction.normalizer",
    "expected one of type, horizon",
  ],
  [
    "unlikelihood",
    { reduction: { type: "constant", normalizer: -1 } },
    "unlikelihood.reduction.normalizer",
    "got -1",
  ],
  ["regularizedSft", { beta: -0.1 }, "regularizedSft.beta", "of at least 0, got -0.1"],
  ["klPenalty", { estimator: "k4" }, "klPenalty.estimator", '"k3_plus", got "k4"'],
  ["klPenalty", { coef: Number.NaN }, "klPenalty.coef", "got NaN"],
  ["entropyProxy", { kind: "exact" }, "entropyProxy.kind", '"score", got "exact"'],

  ["dpo", { beta: 0 }, "dpo.beta", "above 0, got 0"],
  ["dpo", { type: "dpo" }, "dpo.type", 'got "dpo"'],
  ["dpo", { type: {} }, "dpo.type", "at least one type, got none"],
  ["dpo", { type: { sigmoid: 1, ipo: -1 } }, "dpo.type.ipo", "above 0, got -1"],
  ["dpo", { type: { sigmoidd: 1 } }, "dpo.type.sigmoidd", "did you mean sigmoid?"],
  ["dpo", { labelSmoothing: 0.5 }, "dpo.labelSmoothing", "below 0.5, got 0.5"],
  ["dpo", { type: "hinge", labelSmoothing: 0.1 }, "dpo.labelSmoothing", 'none with type "hinge", got 0.1'],
  ["dpo", { type: "exo_pair", labelSmoothing: 0 }, "dpo.labelSmoothing", 'above 0 with type "exo_pair"'],
  ["dpo", { divergence: "kl" }, "dpo.divergence", 'got "kl"'],
  ["dpo", { type: "apo_zero", divergence: "forward_kl" }, "dpo.divergence", 'none with type "apo_zero"'],
  ["dpo", { divergence: "alpha_divergence", alpha: 1 }, "dpo.alpha", "use reverse_kl"],
  ["dpo", { lengthWeight: 1.5 }, "dpo.lengthWeight", "of at most 1, got 1.5"],
  ["dpo", { nllWeight: -1 }, "dpo.nllWeight", "got -1"],
  ["dpo", { referenceFree: "yes" }, "dpo.referenceFree", 'true or false, got "yes"'],
  ["dpo", { tau: 0 }, "dpo.tau", "above 0, got 0"],
  ["xpo", { alpha: -1 }, "xpo.alpha", "got -1"],
  ["simpo", { gamma: -1 }, "simpo.gamma", "got -1"],
  ["cpo", { type: "hinge", labelSmoothing: 0.1 }, "cpo.labelSmoothing", "of at most 0, got 0.1"],
  ["orpo", { beta: "0.1" }, "orpo.beta", 'got "0.1"'],
  ["tpo", { lengthNormalized: 1 }, "tpo.lengthNormalized", "true or false, got 1"],
  ["kto", { type: "bco" }, "kto.type", '"apo_zero", got "bco"'],
  ["kto", { undesirableWeight: -1 }, "kto.undesirableWeight", "got -1"],
  ["bco", { delta: 1 }, "bco.delta", "expected one of beta"],
  ["a2po", { beta: 0 }, "a2po.beta", "above 0, got 0"],
  ["nashMd", { beta: Infinity }, "nashMd.beta", "got Infinity"],

  ["reinforce", { advantages: "group" }, "reinforce.advantages", '"token", got "group"'],
  ["importanceSampling", { logRatioClamp: 0 }, "importanceSampling.logRatioClamp", "above 0, got 0"],
  ["importanceSampling", { clampGradient: "keep" }, "importanceSampling.clampGradient", '"pass", got "keep"'],
  ["ppo", { clipLow: 1.3 }, "ppo.clipHigh", "at least 1.3, got 1.2"],
  ["ppo", { clipLow: -0.1 }, "ppo.clipLow", "of at least 0, got -0.1"],
  ["ppo", { clipHigh: Infinity }, "ppo.clipHigh", "got Infinity"],
  ["ppo", { dualClip: 1 }, "ppo.dualClip", "above 1, got 1"],
  ["ppo", { gradientBand: 1 }, "ppo.gradientBand", "above 1, got 1"],
  ["ppo", { epsilon: 0.2 }, "ppo.epsilon", "expected one of clipLow, clipHigh, dualClip"],
  ["ppo", { kl: 0.1 }, "ppo.kl", "an object, got 0.1"],
  ["ppo", { kl: { beta: 0.1 } }, "ppo.kl.beta", "expected one of coef, estimator, timesRatio"],
  ["ppo", { kl: { coef: -1 } }, "ppo.kl.coef", "got -1"],
  ["ppo", { correction: "token_mask" }, "ppo.correction", 'an object, got "token_mask"'],
  ["ppo", { correction: { mode: "mask", max: 2 } }, "ppo.correction.mode", '"token_mask"'],
  ["ppo", { correction: { mode: "token_mask" } }, "ppo.correction.max", "got undefined"],
  ["ppo", { correction: { mode: "token_mask", min: 3, max: 2 } }, "ppo.correction.max", "at least 3, got 2"],
  ["cispo", { clipHigh: 0 }, "cispo.clipHigh", "above 0, got 0"],
  ["dro", { beta: -1 }, "dro.beta", "got -1"],
  ["grpo", { delta: 1.1 }, "grpo.delta", "of at least 1.2, got 1.1"],
  ["grpo", { ratio: "batch" }, "grpo.ratio", '"sequence_token", got "batch"'],
  ["grpo", { offPolicyThreshold: null }, "grpo.offPolicyThreshold", "got null"],
  [
    "gspo",
    { clampGradient: "pass" },
    "gspo.clampGradient",
    '"zero" with the ratio of a sequence, got "pass"',
  ],
  ["drGrpo", {}, "drGrpo.reduction", "got undefined"],
  ["sapo", { tauNegative: 0 }, "sapo.tauNegative", "above 0, got 0"],
  ["dppo", { divergence: "js" }, "dppo.divergence", '"kl", got "js"'],
  ["dppo", { deltaLow: -1 }, "dppo.deltaLow", "got -1"],
  ["dppo", { ratioCap: 0 }, "dppo.ratioCap", "above 0, got 0"],
  ["klCov", { fraction: 2 }, "klCov.fraction", "of at most 1, got 2"],
  ["klCov", { covCoef: -1 }, "klCov.covCoef", "got -1"],
  ["vespo", { kNegative: 0 }, "vespo.kNegative", "above 0, got 0"],
  ["gmpo", { clipLow: 2 }, "gmpo.clipHigh", "at least 2"],
  ["rloo", { kl: {} }, "rloo.kl", "expected one of clipLow, clipHigh"],
  ["opd", { advantages: "token" }, "opd.advantages", "expected one of coef"],
  ["iwOpd", { gamma: -1 }, "iwOpd.gamma", "got -1"],
  ["combine", {}, "combine.losses", "at least one loss, got none"],
  ["combine", { dpo: 3 }, "combine.losses.dpo", "a loss, got 3"],
])("%s(%j) is refused at %s", (name, options, path, problem) => {
  let error: unknown;
  try {
    build(name, options);
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toBeInstanceOf(InputError);
  expect(error).toMatchObject({ path, message: expect.stringContaining(problem) });
});

test("losses ask for what they read, no more", () => {
  expect(Object.keys(losses.ppo().inputs)).toEqual(["old", "advantages"]);
  const full = losses.grpo({ kl: {}, correction: { mode: "token_mask", max: 2 }, advantages: "token" });
  expect(full.inputs).toEqual({
    old: { axis: "token" },
    advantages: { axis: "token" },
    reference: { axis: "token" },
    rollout: { axis: "token" },
  });
  expect(full.params).toEqual({ klCoef: 0.04 });
  expect(Object.keys(losses.dpo({ referenceFree: true }).inputs)).toEqual([]);
  expect(Object.keys(losses.opd().inputs)).toEqual(["old", "teacher"]);
});

test("losses bear the names of their functions", () => {
  const reduction = { type: "fixed_horizon", horizon: 8 } as const;
  expect(losses.drGrpo({ reduction }).name).toBe("dr_grpo");
  expect(losses.drGrpo({ reduction }).params).toEqual({ horizon: 8 });
  expect(losses.gspoToken().name).toBe("gspo_token");
  expect(losses.combine({ a: losses.dpo(), b: losses.klPenalty() }).name).toBe("dpo+kl_penalty");
});

test("a loss prints as its formula", () => {
  expect(String(losses.importanceSampling())).toContain(
    "  b: token = exp a\n  c: token = scale advantages@token b",
  );
});
