// Losses over single samples that are known to be desirable or not, with a frozen reference.
import { defineLoss, perSample, perToken } from "../loss/define.ts";
import type { Mask, Tensor } from "../loss/tensor.ts";
import { checkNames } from "../names.ts";
import { checkChoice, checkNumber } from "./options.ts";
import { sampleSum } from "./reductions.ts";

/** Mean over the samples of a mask; 0 of none. */
const meanWhere = (mask: Mask<"sample">, x: Tensor<"sample">): Tensor<"batch"> =>
  mask.where(x, 0).sum().div(mask.count().maximum(1));

/** What is watched of labelled samples, from the reward of each. */
function labelMetrics(reward: Tensor<"sample">, labels: Tensor<"sample">) {
  const desirable = meanWhere(labels.gt(0), reward);
  const undesirable = meanWhere(labels.lt(0), reward);
  return {
    desirableReward: desirable,
    undesirableReward: undesirable,
    margin: desirable.sub(undesirable),
    /** Of the labelled samples, the share whose reward has the sign of the label. */
    accuracy: meanWhere(labels.ne(0), reward.mul(labels).gt(0).indicator()),
  };
}

export interface KtoOptions {
  /** `kto`, or `apo_zero` (arXiv 2408.06266, TRL's `apo_zero_unpaired`), which has no baseline. Default `kto`. */
  readonly type?: (typeof TYPES)[number];
  /** Temperature of the implicit reward, above 0. Default 0.1. Also a parameter. */
  readonly beta?: number;
  /** Weight of desirable samples, at least 0. Default 1. */
  readonly desirableWeight?: number;
  /** Weight of undesirable samples, at least 0. Default 1. */
  readonly undesirableWeight?: number;
}

const TYPES = ["kto", "apo_zero"] as const;

/**
 * Kahneman-Tversky optimisation (arXiv 2402.01306): with `r = S(l - f)`, `1 - sigmoid(beta (r - k))` of a desirable sample,
 * `1 - sigmoid(beta (k - r))` of an undesirable one, a mean over labelled samples. The inputs: `reference` per token;
 * `labels` per sample, 1 desirable, -1 undesirable, 0 for a sample that only serves the baseline: an answer to another
 * prompt. `k` is the mean of `r` over those, at least 0, a constant; without any it is 0. One class alone will do.
 *
 * Metrics: `desirableReward`, `undesirableReward`, means of `beta r`; their difference `margin`; `accuracy`, the share of
 * labelled samples whose reward has the label's sign; `kl`, the baseline `k`.
 */
export function kto(options: KtoOptions = {}) {
  checkNames("kto", options, ["type", "beta", "desirableWeight", "undesirableWeight"]);
  const { type = "kto", beta = 0.1, desirableWeight = 1, undesirableWeight = 1 } = options;
  checkChoice("kto.type", type, TYPES);
  checkNumber("kto.beta", beta, { above: 0 });
  checkNumber("kto.desirableWeight", desirableWeight, { min: 0 });
  checkNumber("kto.undesirableWeight", undesirableWeight, { min: 0 });
  return defineLoss({
    name: "kto",
    inputs: { reference: perToken(), labels: perSample() },
    params: { beta },
    loss: ({ logprobs, weights, reference, labels, beta }) => {
      const logRatio = sampleSum(logprobs.sub(reference), weights);
      const kl = meanWhere(labels.eq(0), logRatio).maximum(0).detach();
      const gain = logRatio.sub(type === "kto" ? kl : 0).mul(beta);
      // 1 - sigmoid(x) is sigmoid(-x), which keeps its digits in the tail.
      const value = labels
        .gt(0)
        .where(gain.neg().sigmoid().mul(desirableWeight), gain.sigmoid().mul(undesirableWeight));
      return {
        loss: meanWhere(labels.ne(0), value),
        metrics: { ...labelMetrics(logRatio.mul(beta), labels), kl },
      };
    },
  });
}

/**
 * Binary classifier optimisation (arXiv 2404.04656): `-log sigmoid(beta r - d)` of a desirable sample,
 * `-log sigmoid(d - beta r)` of an undesirable one, with `r = S(l - f)`; a mean over labelled samples. The inputs:
 * `reference` per token; `labels` per sample, 1 desirable, -1 undesirable, 0 left out.
 *
 * `d`, a constant, is the running mean of `beta r` over all batches so far and this one, as in TRL. The caller keeps it: the
 * parameters `seenMean` and `seenCount` (0 by default) say what it was and of how many samples; the metric `shift` is the
 * new one. TRL's density-ratio weights need embeddings of the prompts and are not part of it.
 *
 * Metrics besides: those of `kto` but `kl`.
 *
 * @param options.beta Temperature of the implicit reward, above 0. Default 0.1. Also a parameter.
 */
export function bco(options: { readonly beta?: number } = {}) {
  checkNames("bco", options, ["beta"]);
  const { beta = 0.1 } = options;
  checkNumber("bco.beta", beta, { above: 0 });
  return defineLoss({
    name: "bco",
    inputs: { reference: perToken(), labels: perSample() },
    params: { beta, seenMean: 0, seenCount: 0 },
    loss: ({ logprobs, weights, reference, labels, beta, seenMean, seenCount }) => {
      const reward = sampleSum(logprobs.sub(reference), weights).mul(beta);
      const labelled = labels.ne(0);
      const total = labelled.where(reward, 0).sum().add(seenMean.mul(seenCount));
      const shift = total.div(labelled.count().add(seenCount).maximum(1)).detach();
      const z = reward.sub(shift).mul(labels.sign());
      return {
        loss: meanWhere(labelled, z.logSigmoid().neg()),
        metrics: { ...labelMetrics(reward, labels), shift },
      };
    },
  });
}
