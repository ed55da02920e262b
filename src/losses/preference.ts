// Losses over preference pairs with a frozen reference. A pair is a group of two samples: chosen, then rejected.
import { describe, InputError } from "../errors.ts";
import { defineLoss, perGroup, perToken } from "../loss/define.ts";
import type { Tensor } from "../loss/tensor.ts";
import { checkNames } from "../names.ts";
import { checkChoice, checkFlag, checkNumber } from "./options.ts";
import { logistic, marginOf, nllOf, pairMetrics, rejectedOf, sequenceMetrics } from "./pairs.ts";
import { DIVERGING, PAIR_LOSSES, type PairLoss, SMOOTHED } from "./preference-types.ts";
import { sampleSum } from "./reductions.ts";

const DIVERGENCES = ["reverse_kl", "forward_kl", "js_divergence", "alpha_divergence"] as const;
const TYPES = Object.keys(PAIR_LOSSES) as PairLoss[];

export interface DpoOptions {
  /**
   * What a pair costs, or several costs and their weights, such as `{ sigmoid: 0.8, bco_pair: 0.2 }` (mixed preference
   * optimisation, arXiv 2411.10442, has `nllWeight: 1` besides). Default `sigmoid`.
   */
  readonly type?: PairLoss | Readonly<Partial<Record<PairLoss, number>>>;
  /** Temperature of the implicit reward, above 0; the higher, the closer to the reference. Default 0.1. Also a parameter. */
  readonly beta?: number;
  /**
   * Probability that a label is wrong, from 0 up to but not 0.5, for `sigmoid`, `robust`, `exo_pair`, `aot` and
   * `aot_unpaired`; other types take none. Default 0; with `exo_pair`, which needs one, 0.001.
   */
  readonly labelSmoothing?: number;
  /**
   * What distance to the reference the score comes from (f-DPO, arXiv 2309.16240). With `r = S(l - f)`: `reverse_kl` r,
   * `forward_kl` 1 - exp(-r), `js_divergence` log 2 + log sigmoid(r), `alpha_divergence` (exp((alpha - 1) r) - 1) / (alpha - 1)
   * with its exponent held at 80 from above. Default `reverse_kl`, the only one of types that look at more than a margin.
   */
  readonly divergence?: (typeof DIVERGENCES)[number];
  /** Order of `alpha_divergence`, other than 1. Default 0.5. */
  readonly alpha?: number;
  /** Weight of the negative log-likelihood of the chosen samples, one mean over all their tokens. Default 0. */
  readonly nllWeight?: number;
  /**
   * Weight, from 0 to 1, of the tokens by which a sample is longer than the other of its pair, in policy and reference alike
   * (LD-DPO, arXiv 2409.06411). Default 1: none are made lighter.
   */
  readonly lengthWeight?: number;
  /** Takes the reference as 0 everywhere; then there is no input `reference`. Default false. */
  readonly referenceFree?: boolean;
  /** Temperature of the gate of `discopop`, above 0. Default 0.05. */
  readonly tau?: number;
}

/** The weight of each type. */
function readTypes(type: unknown): [PairLoss, number][] {
  if (typeof type === "string") {
    checkChoice("dpo.type", type, TYPES);
    return [[type, 1]];
  }
  checkNames("dpo.type", type, TYPES);
  const weighted = Object.entries(type) as [PairLoss, unknown][];
  if (weighted.length === 0) throw new InputError("dpo.type", "expected at least one type, got none");
  return weighted.map(([name, weight]) => {
    checkNumber(`dpo.type.${name}`, weight, { above: 0 });
    return [name, weight];
  });
}

function readOptions(options: DpoOptions) {
  checkNames("dpo", options, [
    "type",
    "beta",
    "labelSmoothing",
    "divergence",
    "alpha",
    "nllWeight",
    "lengthWeight",
    "referenceFree",
    "tau",
  ]);
  const types = readTypes(options.type ?? "sigmoid");
  const has = (name: PairLoss) => types.some(([type]) => type === name);
  const only = (path: string, allowed: readonly PairLoss[], value: unknown) => {
    const other = types.find(([type]) => !allowed.includes(type));
    if (other === undefined) return;
    throw new InputError(path, `expected none with type "${other[0]}", got ${describe(value)}`);
  };
  const { beta = 0.1, divergence = "reverse_kl", alpha = 0.5, nllWeight = 0, lengthWeight = 1 } = options;
  const { referenceFree = false, tau = 0.05, labelSmoothing = has("exo_pair") ? 1e-3 : 0 } = options;
  checkNumber("dpo.beta", beta, { above: 0 });
  checkNumber("dpo.labelSmoothing", labelSmoothing, { min: 0, below: 0.5 });
  if (options.labelSmoothing && !types.some(([type]) => SMOOTHED.includes(type)))
    only("dpo.labelSmoothing", SMOOTHED, labelSmoothing);
  if (labelSmoothing === 0 && has("exo_pair"))
    throw new InputError("dpo.labelSmoothing", 'expected a number above 0 with type "exo_pair", got 0');
  checkChoice("dpo.divergence", divergence, DIVERGENCES);
  if (divergence !== "reverse_kl") only("dpo.divergence", DIVERGING, divergence);
  checkNumber("dpo.alpha", alpha);
  if (alpha === 1)
    throw new InputError("dpo.alpha", "expected a number other than 1, got 1; use reverse_kl, its limit");
  checkNumber("dpo.nllWeight", nllWeight, { min: 0 });
  checkNumber("dpo.lengthWeight", lengthWeight, { min: 0, max: 1 });
  checkFlag("dpo.referenceFree", referenceFree);
  checkNumber("dpo.tau", tau, { above: 0 });
  return { types, beta, labelSmoothing, divergence, alpha, nllWeight, lengthWeight, referenceFree, tau };
}

/** A sequence's score from its log-ratio against the reference. */
function scoreOf(
  logRatio: Tensor<"sample">,
  divergence: DpoOptions["divergence"],
  alpha: number,
): Tensor<"sample"> {
  if (divergence === "forward_kl") return logRatio.neg().expm1().neg();
  if (divergence === "js_divergence") return logRatio.logSigmoid().add(Math.LN2);
  if (divergence === "reverse_kl") return logRatio;
  // The bound keeps the exponential finite; beyond it the pair gives no gradient.
  return logRatio
    .mul(alpha - 1)
    .clamp(undefined, 80)
    .expm1()
    .div(alpha - 1);
}

/** The weights, where tokens beyond the length of the pair's shorter sample are made lighter. */
function desensitise(weights: Tensor<"token">, lengthWeight: number): Tensor<"token"> {
  const place = weights.gt(0).indicator().cumsum();
  const shorter = weights.count("sample").min("group");
  return place.le(shorter).where(weights, weights.mul(lengthWeight));
}

/**
 * Direct preference optimisation (arXiv 2305.18290) and its relatives: a mean over pairs of a cost of the scores `s` of
 * both samples, by default `-log sigmoid(beta (s_chosen - s_rejected))`, where `s` is the weighted sum over a sample of
 * `l - f` and the input `reference` holds `f`. A sample that stands in several pairs is put into the batch once for each.
 * The types and options bear the names of TRL's `DPOTrainer`; length is what weights add up to.
 *
 * Metrics: `accuracy`, the share of pairs whose chosen reward is the larger; `margin`, `chosenReward` and
 * `rejectedReward`, means over pairs of the rewards `beta s`; `chosenLogprob` and `rejectedLogprob`, means of the sums of
 * `l`; `nll`, the negative log-likelihood of the chosen samples. Terms: each type, and `nll` where it has a weight.
 */
export function dpo(options: DpoOptions = {}) {
  const { types, beta, labelSmoothing, divergence, alpha, nllWeight, lengthWeight, referenceFree, tau } =
    readOptions(options);
  return defineLoss({
    name: "dpo",
    inputs: { ...(!referenceFree && { reference: perToken() }) },
    params: { beta },
    loss: ({ logprobs, weights: plainWeights, reference, beta }) => {
      const weights = lengthWeight === 1 ? plainWeights : desensitise(plainWeights, lengthWeight);
      const logRatio = reference === undefined ? logprobs : logprobs.sub(reference);
      const score = scoreOf(sampleSum(logRatio, weights), divergence, alpha);
      const pair = {
        score,
        scorePerToken: score.unscale(weights.sum("sample")),
        policy: sampleSum(logprobs, weights),
        reference: sampleSum(reference ?? logprobs.mul(0), weights),
        beta,
        smoothing: labelSmoothing,
        tau,
      };
      const nll = nllOf(logprobs, weights);
      const terms: Record<string, Tensor<"batch">> = Object.fromEntries(
        types.map(([type, weight]) => [type, PAIR_LOSSES[type](pair).mean().mul(weight)]),
      );
      if (nllWeight > 0) terms.nll = nll.mul(nllWeight);
      return {
        loss: Object.values(terms).reduce((sum, term) => sum.add(term)),
        metrics: { ...pairMetrics(score.mul(beta)), ...sequenceMetrics(pair.policy), nll },
        terms,
      };
    },
  });
}

export interface XpoOptions {
  /** Temperature of the implicit reward, above 0. Default 0.1. Also a parameter. */
  readonly beta?: number;
  /** Weight of the optimism, at least 0. Default 1e-5. Also a parameter. */
  readonly alpha?: number;
}

/**
 * Exploratory preference optimisation (arXiv 2405.21046): DPO on pairs of a sample of the policy, first, and one of the
 * reference policy, second, plus `alpha S(l)` of the latter, a mean over pairs. The inputs: `reference` per token, and
 * `policyWins`, 1 for each pair whose first sample is preferred, else 0.
 *
 * Metrics: `margin`, the mean of the preferred reward less the other; `policyWins`, the share of pairs. Terms: `preference`,
 * `optimism`.
 */
export function xpo(options: XpoOptions = {}) {
  checkNames("xpo", options, ["beta", "alpha"]);
  const { beta = 0.1, alpha = 1e-5 } = options;
  checkNumber("xpo.beta", beta, { above: 0 });
  checkNumber("xpo.alpha", alpha, { min: 0 });
  return defineLoss({
    name: "xpo",
    inputs: { reference: perToken(), policyWins: perGroup() },
    params: { beta, alpha },
    loss: ({ logprobs, weights, reference, policyWins, beta, alpha }) => {
      const margin = marginOf(sampleSum(logprobs.sub(reference), weights)).mul(beta);
      const z = policyWins.gt(0).where(margin, margin.neg());
      const preference = logistic(z).mean();
      const optimism = rejectedOf(sampleSum(logprobs, weights)).mean().mul(alpha);
      return {
        loss: preference.add(optimism),
        metrics: { margin: z.mean(), policyWins: policyWins.gt(0).indicator().mean() },
        terms: { preference, optimism },
      };
    },
  });
}
