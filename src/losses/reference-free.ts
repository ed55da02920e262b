// Losses over preference pairs and triples without a reference.
import { defineLoss } from "../loss/define.ts";
import type { Tensor } from "../loss/tensor.ts";
import { checkNames } from "../names.ts";
import { checkChoice, checkFlag, checkNumber } from "./options.ts";
import {
  logistic,
  marginOf,
  nllOf,
  type Pairs,
  pairMetrics,
  sequenceMetrics,
  smoothedLogistic,
} from "./pairs.ts";
import { belowZero } from "./pieces.ts";
import { sampleMean, sampleSum } from "./reductions.ts";

type Scalar = Tensor<"batch">;
type Tokens = Tensor<"token">;

/** The loss of pairs and that of the chosen samples' likelihood, with what is watched of both. */
function withNll(
  [logprobs, weights]: readonly [Tokens, Tokens],
  cost: Pairs,
  reward: Tensor<"sample">,
  nllWeight: number,
  member = 0,
) {
  const preference = cost.mean();
  const nll = nllOf(logprobs, weights, member);
  const sequence = sampleSum(logprobs, weights);
  const terms: { preference: Scalar; nll?: Scalar } = { preference };
  if (nllWeight > 0) terms.nll = nll.mul(nllWeight);
  return {
    loss: terms.nll === undefined ? preference : preference.add(terms.nll),
    metrics: { ...pairMetrics(reward), ...sequenceMetrics(sequence), nll },
    terms: terms as Readonly<Record<"preference" | "nll", Scalar>>,
  };
}

export interface SimpoOptions {
  /** Scale of the reward, above 0. Default 2. Also a parameter. */
  readonly beta?: number;
  /** Margin that the rewards are to differ by, at least 0. Default 1. Also a parameter. */
  readonly gamma?: number;
  /** Probability that a label is wrong, from 0 up to but not 0.5. Default 0. */
  readonly labelSmoothing?: number;
  /** Weight of the negative log-likelihood of the chosen samples, one mean over all their tokens. Default 0. */
  readonly nllWeight?: number;
  /**
   * Shape of the reward (AlphaPO, arXiv 2501.03884): `(1 - exp(-alpha a)) / alpha` in place of the mean log-probability
   * `a`. Default 0, its limit: `a` itself. AlphaPO has 0.25.
   */
  readonly alpha?: number;
}

/**
 * SimPO (arXiv 2405.14734): `-log sigmoid(beta (a_chosen - a_rejected) - gamma)` per pair, a mean over pairs, where `a` is
 * the mean log-probability of a sample; 0 of an empty one. Defaults as in the paper. TRL writes the same with `gamma / beta`
 * inside and adds the likelihood by default (beta 0.1, gamma 0.5, its `cpo_alpha` 1); Together calls it `simpo_gamma`.
 *
 * Metrics and terms as of `cpo`, with rewards `beta a`.
 */
export function simpo(options: SimpoOptions = {}) {
  checkNames("simpo", options, ["beta", "gamma", "labelSmoothing", "nllWeight", "alpha"]);
  const { beta = 2, gamma = 1, labelSmoothing = 0, nllWeight = 0, alpha = 0 } = options;
  checkNumber("simpo.beta", beta, { above: 0 });
  checkNumber("simpo.gamma", gamma, { min: 0 });
  checkNumber("simpo.labelSmoothing", labelSmoothing, { min: 0, below: 0.5 });
  checkNumber("simpo.nllWeight", nllWeight, { min: 0 });
  checkNumber("simpo.alpha", alpha);
  return defineLoss({
    name: "simpo",
    params: { beta, gamma },
    loss: ({ logprobs, weights, beta, gamma }) => {
      const average = sampleMean(logprobs, weights);
      const shaped = alpha === 0 ? average : average.mul(-alpha).expm1().div(-alpha);
      const reward = shaped.mul(beta);
      const cost = smoothedLogistic(marginOf(reward).sub(gamma), labelSmoothing);
      return withNll([logprobs, weights], cost, reward, nllWeight);
    },
  });
}

const CPO_TYPES = ["sigmoid", "hinge", "ipo"] as const;

export interface CpoOptions {
  /** Cost of a pair. Default `sigmoid`. */
  readonly type?: (typeof CPO_TYPES)[number];
  /** Scale of the reward, above 0. Default 0.1. Also a parameter. */
  readonly beta?: number;
  /** Probability that a label is wrong, from 0 up to but not 0.5; with `sigmoid` only. Default 0. */
  readonly labelSmoothing?: number;
  /** Weight of the negative log-likelihood of the chosen samples, one mean over all their tokens. Default 1. */
  readonly nllWeight?: number;
}

/**
 * Contrastive preference optimisation (arXiv 2401.08417), as in TRL: per pair, with `z = beta (S(l)_c - S(l)_j)`, sums over
 * chosen and rejected, `-log sigmoid(z)` or `relu(1 - z)` (`hinge`); or, of the means `a`, `(a_c - a_j - 1 / (2 beta))^2`
 * (`ipo`). A mean over pairs, plus the likelihood of the chosen.
 *
 * Metrics: `accuracy`, `margin`, `chosenReward`, `rejectedReward` of the rewards `beta S(l)`, or `beta a`; `chosenLogprob`,
 * `rejectedLogprob`, means of `S(l)`; `nll`. Terms: `preference`, and `nll` where it has a weight.
 */
export function cpo(options: CpoOptions = {}) {
  checkNames("cpo", options, ["type", "beta", "labelSmoothing", "nllWeight"]);
  const { type = "sigmoid", beta = 0.1, labelSmoothing = 0, nllWeight = 1 } = options;
  checkChoice("cpo.type", type, CPO_TYPES);
  checkNumber("cpo.beta", beta, { above: 0 });
  checkNumber("cpo.labelSmoothing", labelSmoothing, {
    min: 0,
    ...(type === "sigmoid" ? { below: 0.5 } : { max: 0 }),
  });
  checkNumber("cpo.nllWeight", nllWeight, { min: 0 });
  const costs: Record<typeof type, (margin: Pairs, beta: Scalar) => Pairs> = {
    sigmoid: (margin, beta) => smoothedLogistic(margin.mul(beta), labelSmoothing),
    hinge: (margin, beta) => margin.mul(beta).neg().add(1).relu(),
    ipo: (margin, beta) => margin.sub(beta.mul(2).pow(-1)).square(),
  };
  return defineLoss({
    name: "cpo",
    params: { beta },
    loss: ({ logprobs, weights, beta }) => {
      const score = (type === "ipo" ? sampleMean : sampleSum)(logprobs, weights);
      return withNll([logprobs, weights], costs[type](marginOf(score), beta), score.mul(beta), nllWeight);
    },
  });
}

/**
 * ORPO (arXiv 2403.07691): the likelihood of the chosen plus `-beta log sigmoid(w)`, a mean over pairs, where `w` is the
 * log of the ratio of the odds, `a - log(1 - exp(a))` of chosen and rejected, with the mean log-probability `a` held at
 * -1e-6 from above in the second part. TRL takes the likelihood over the prompt as well, where the weights are 0 here.
 *
 * Metrics and terms as of `cpo`, with rewards `beta a`; `logOdds`, the mean of `w`.
 *
 * @param options.beta Weight of the odds, at least 0. Default 0.1; lambda in the paper. Also a parameter.
 */
export function orpo(options: { readonly beta?: number } = {}) {
  checkNames("orpo", options, ["beta"]);
  const { beta = 0.1 } = options;
  checkNumber("orpo.beta", beta, { min: 0 });
  return defineLoss({
    name: "orpo",
    params: { beta },
    loss: ({ logprobs, weights, beta }) => {
      const average = sampleMean(logprobs, weights);
      const odds = marginOf(average.sub(belowZero(average).log1mexp()));
      const parts = withNll([logprobs, weights], logistic(odds).mul(beta), average.mul(beta), 1);
      return { ...parts, metrics: { ...parts.metrics, logOdds: odds.mean() } };
    },
  });
}

export interface TpoOptions {
  /** Scale of the reward, above 0. Default 0.01. Also a parameter. */
  readonly beta?: number;
  /** Whether rewards are of mean log-probabilities instead of sums. Default false. */
  readonly lengthNormalized?: boolean;
  /** Margin that the rewards are to differ by, at least 0. Default 0; with `lengthNormalized` 0.5. Also a parameter. */
  readonly gamma?: number;
  /** Weight of the negative log-likelihood of the gold samples, one mean over all their tokens. Default 1. */
  readonly nllWeight?: number;
}

/**
 * Triple preference optimisation (arXiv 2405.16681): `-log sigmoid(beta (s_chosen - s_rejected) - gamma)` per triple, a mean
 * over triples, plus the likelihood of the gold samples. A triple is a group of three samples: chosen, rejected, gold; `s` is
 * the sum of a sample's log-probabilities.
 *
 * Metrics and terms as of `cpo`; `nll` is that of gold.
 */
export function tpo(options: TpoOptions = {}) {
  checkNames("tpo", options, ["beta", "lengthNormalized", "gamma", "nllWeight"]);
  const { beta = 0.01, lengthNormalized = false, nllWeight = 1 } = options;
  const { gamma = lengthNormalized ? 0.5 : 0 } = options;
  checkNumber("tpo.beta", beta, { above: 0 });
  checkFlag("tpo.lengthNormalized", lengthNormalized);
  checkNumber("tpo.gamma", gamma, { min: 0 });
  checkNumber("tpo.nllWeight", nllWeight, { min: 0 });
  return defineLoss({
    name: "tpo",
    params: { beta, gamma },
    loss: ({ logprobs, weights, beta, gamma }) => {
      const reward = (lengthNormalized ? sampleMean : sampleSum)(logprobs, weights).mul(beta);
      return withNll([logprobs, weights], logistic(marginOf(reward).sub(gamma)), reward, nllWeight, 2);
    },
  });
}
