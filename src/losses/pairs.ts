// What losses over preference pairs share. A pair is a group whose first sample was chosen and whose second was rejected.
import type { Tensor } from "../loss/tensor.ts";
import { sampleSum } from "./reductions.ts";

/** A number for each pair. */
export type Pairs = Tensor<"group">;

export const chosenOf = (x: Tensor<"sample">): Pairs => x.member(0);
export const rejectedOf = (x: Tensor<"sample">): Pairs => x.member(1);
export const marginOf = (x: Tensor<"sample">): Pairs => chosenOf(x).sub(rejectedOf(x));

/** `-log sigmoid(z)`: the cost of a preference of log-odds `z` that came out as expected. */
export const logistic = (z: Pairs): Pairs => z.logSigmoid().neg();

/** The same where labels are wrong with probability `smoothing`. */
export const smoothedLogistic = (z: Pairs, smoothing: number): Pairs =>
  smoothing === 0
    ? logistic(z)
    : logistic(z)
        .mul(1 - smoothing)
        .add(logistic(z.neg()).mul(smoothing));

/** Negative log-likelihood of one sample of each group, by default the chosen: one mean over all their tokens. */
export function nllOf(logprobs: Tensor<"token">, weights: Tensor<"token">, member = 0): Tensor<"batch"> {
  const tokens = weights.sum("sample").member(member).sum();
  return sampleSum(logprobs, weights).member(member).sum().neg().unscale(tokens);
}

/** What is watched of pairs, from the reward of each sample. */
export function pairMetrics(reward: Tensor<"sample">) {
  const margin = marginOf(reward);
  return {
    accuracy: margin.gt(0).indicator().mean(),
    margin: margin.mean(),
    chosenReward: chosenOf(reward).mean(),
    rejectedReward: rejectedOf(reward).mean(),
  };
}

/** Mean log-probability of the chosen and of the rejected sequences: both falling together is a warning. */
export function sequenceMetrics(sequence: Tensor<"sample">) {
  return { chosenLogprob: chosenOf(sequence).mean(), rejectedLogprob: rejectedOf(sequence).mean() };
}
