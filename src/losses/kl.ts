// Estimators of the divergence from a reference, per token, from the log-probabilities of the sampled token alone.
import type { Tensor } from "../loss/tensor.ts";
import { checkNames } from "../names.ts";
import { checkChoice, checkFlag, checkNumber } from "./options.ts";
import { straightThrough } from "./pieces.ts";

type Tokens = Tensor<"token">;

const k1 = (delta: Tokens) => delta;
const k2 = (delta: Tokens) => delta.square().mul(0.5);
/** `exp(-delta) + delta - 1`, which keeps its digits where `delta` is small. */
const k3 = (delta: Tokens) => delta.neg().expm1().add(delta);
const within = (x: Tokens, bound: number) => x.clamp(-bound, bound);
const k3Clamped = (delta: Tokens) => within(k3(within(delta, 20)), 10);

/**
 * With `delta = l - f`, policy against reference (Schulman, "Approximating KL divergence", 2020):
 *
 * | name | value | slope in l | as in |
 * | --- | --- | --- | --- |
 * | `k1` | delta | 1 | all |
 * | `abs` | abs(delta) | sign(delta) | verl, xorl |
 * | `k2` | delta^2 / 2 | delta | all |
 * | `k3` | exp(-delta) + delta - 1 | 1 - exp(-delta) | TRL |
 * | `k3_clamp20_10` | k3 of delta within 20, itself within 10 | 0 beyond | verl `low_var_kl` |
 * | `k3_clamp10` | k3 of delta within 10 | 0 beyond | xorl |
 * | `k1_out10`, `k2_out10`, `k3_out10` | the plain one within 10 | 0 beyond | OpenRLHF |
 * | `k3_plus` | `k3_clamp20_10` | delta, that of `k2` | verl and xorl `k3+` |
 *
 * All but `abs` have the divergence as their mean over samples of the policy; of the slopes only that of `k2` has the
 * divergence's gradient as its mean. One token that the policy dropped and the reference likes can own a batch by the plain
 * `k3`.
 */
export type KlEstimator = keyof typeof ESTIMATORS;

const ESTIMATORS = {
  k1,
  abs: (delta) => delta.abs(),
  k2,
  k3,
  k3_clamp20_10: k3Clamped,
  k3_clamp10: (delta) => k3(within(delta, 10)),
  k1_out10: (delta) => within(k1(delta), 10),
  k2_out10: (delta) => within(k2(delta), 10),
  k3_out10: (delta) => within(k3(delta), 10),
  k3_plus: (delta) => straightThrough(k2(delta), k3Clamped(delta)),
} satisfies Record<string, (delta: Tokens) => Tokens>;

/** Estimate of the divergence of the policy from the reference at each token, in nats. */
export const klEstimate = (logprobs: Tokens, reference: Tokens, estimator: KlEstimator): Tokens =>
  ESTIMATORS[estimator](logprobs.sub(reference));

export interface KlOptions {
  /** Weight of the penalty, at least 0. Default 0.04. Also a parameter: `klCoef` of a policy loss, else `coef`. */
  readonly coef?: number;
  /** Default `k3`. */
  readonly estimator?: KlEstimator;
  /**
   * Multiplies the estimate by the ratio of policy to old policy, gradient and all, so that it is right for samples of the
   * latter; changes the gradient even where the ratio is 1. TRL's `use_bias_correction_kl`. Needs the input `old`. Default
   * false.
   */
  readonly timesRatio?: boolean;
}

/** Checks the options of a penalty and fills in the defaults. */
export function checkKl(path: string, options: unknown): Required<KlOptions> {
  checkNames(path, options, ["coef", "estimator", "timesRatio"]);
  const { coef = 0.04, estimator = "k3", timesRatio = false } = options as KlOptions;
  checkNumber(`${path}.coef`, coef, { min: 0 });
  checkChoice(`${path}.estimator`, estimator, Object.keys(ESTIMATORS) as KlEstimator[]);
  checkFlag(`${path}.timesRatio`, timesRatio);
  return { coef, estimator, timesRatio };
}
