// Losses that regress the log-ratio of a sample on its reward, or play against the reference.
import { defineLoss, perSample, perToken } from "../loss/define.ts";
import { checkNames } from "../names.ts";
import { checkNumber } from "./options.ts";
import { sampleSum } from "./reductions.ts";

/**
 * A*-PO (arXiv 2505.20686): `(beta S(l - f) - (R - V))^2` per sample, a mean over samples. The inputs: `reference` per
 * token; per sample `rewards` `R` and `optimalValue` `V`, the estimate `beta1 log mean exp(R / beta1)` over samples of the
 * reference for the same prompt (beta1 0.5 in TRL).
 *
 * Metrics: `reward`, the mean of `beta S(l - f)`; `advantage`, that of `R - V`.
 *
 * @param options.beta Weight of the log-ratio, above 0. Default 0.001. Also a parameter.
 */
export function a2po(options: { readonly beta?: number } = {}) {
  checkNames("a2po", options, ["beta"]);
  const { beta = 1e-3 } = options;
  checkNumber("a2po.beta", beta, { above: 0 });
  return defineLoss({
    name: "a2po",
    inputs: { reference: perToken(), rewards: perSample(), optimalValue: perSample() },
    params: { beta },
    loss: ({ logprobs, weights, reference, rewards, optimalValue, beta }) => {
      const reward = sampleSum(logprobs.sub(reference), weights).mul(beta);
      const advantage = rewards.sub(optimalValue);
      return {
        loss: reward.sub(advantage).square().mean(),
        metrics: { reward: reward.mean(), advantage: advantage.mean() },
      };
    },
  });
}

/**
 * Nash-MD (arXiv 2312.00886, as in TRL): `beta sum(m sg(l - f) l) - (P - 1/2) S(l)` per sample, a mean over samples of the
 * policy. The inputs: `reference` per token; per sample `winProbability` `P`, that of being preferred to a sample of the
 * mixture of policy and reference.
 *
 * Metrics: `kl`, the mean of `S(l - f)`; `winProbability`. Terms: `policy`, `kl`.
 *
 * @param options.beta Weight of the divergence, at least 0. Default 0.1. Also a parameter.
 */
export function nashMd(options: { readonly beta?: number } = {}) {
  checkNames("nashMd", options, ["beta"]);
  const { beta = 0.1 } = options;
  checkNumber("nashMd.beta", beta, { min: 0 });
  return defineLoss({
    name: "nash_md",
    inputs: { reference: perToken(), winProbability: perSample() },
    params: { beta },
    loss: ({ logprobs, weights, reference, winProbability, beta }) => {
      const logRatio = logprobs.sub(reference);
      const kl = sampleSum(logRatio.detach().mul(logprobs), weights).mean().mul(beta);
      const policy = sampleSum(logprobs, weights).mul(winProbability.sub(0.5)).neg().mean();
      return {
        loss: kl.add(policy),
        metrics: { kl: sampleSum(logRatio, weights).mean(), winProbability: winProbability.mean() },
        terms: { policy, kl },
      };
    },
  });
}
