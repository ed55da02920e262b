// Supervised losses: cross-entropy, near a reference or weighted by the policy itself, and its opposite.
import { defineLoss, perToken } from "../loss/define.ts";
import { checkNames } from "../names.ts";
import { checkNumber } from "./options.ts";
import { belowZero } from "./pieces.ts";
import { checkReduction, type Reduction } from "./reductions.ts";

/** What the losses without further options take. */
export interface ReductionOptions {
  /** Default `token_mean`. */
  readonly reduction?: Reduction;
}

/**
 * Cross-entropy: `-l` per token. Weights are multipliers.
 *
 * Tinker and the service sum (`token_sum`), the trainers of Hugging Face, verl and xorl take the token mean.
 */
export function crossEntropy(options: ReductionOptions = {}) {
  checkNames("crossEntropy", options, ["reduction"]);
  const { params, reduce } = checkReduction("crossEntropy.reduction", options.reduction ?? "token_mean");
  return defineLoss({
    name: "cross_entropy",
    params,
    loss: ({ logprobs, weights, ...args }) => reduce(logprobs.neg(), weights, args),
  });
}

export interface RegularizedSftOptions {
  /** Weight of the drift, at least 0. Default 0.1. Also the parameter `beta` of the loss. */
  readonly beta?: number;
  /** Default `seq_mean_token_mean`; Together's example has `seq_mean_token_mean_raw`. */
  readonly reduction?: Reduction;
}

/**
 * Regularised supervised fine-tuning: `-l + beta (l - f)^2` per token, where the input `reference` holds `f`, the
 * log-probabilities of a frozen snapshot.
 *
 * Terms and metrics: `nll` and `drift`; as metrics both without `beta`.
 */
export function regularizedSft(options: RegularizedSftOptions = {}) {
  checkNames("regularizedSft", options, ["beta", "reduction"]);
  const { beta = 0.1, reduction = "seq_mean_token_mean" } = options;
  checkNumber("regularizedSft.beta", beta, { min: 0 });
  const { params, reduce } = checkReduction("regularizedSft.reduction", reduction);
  return defineLoss({
    name: "regularized_sft",
    inputs: { reference: perToken() },
    params: { beta, ...params },
    loss: ({ logprobs, weights, reference, beta, ...args }) => {
      const nll = reduce(logprobs.neg(), weights, args);
      const drift = reduce(logprobs.sub(reference).square(), weights, args);
      const held = drift.mul(beta);
      return { loss: nll.add(held), metrics: { nll, drift }, terms: { nll, drift: held } };
    },
  });
}

/**
 * Dynamic fine-tuning (arXiv 2508.05629): `-p l` per token with `p = exp(l)`, the policy's own probability, as a constant:
 * tokens that the policy thinks impossible weigh nothing. As TRL's `dft`.
 *
 * Metrics: `nll`, the plain cross-entropy, reduced alike.
 */
export function dft(options: ReductionOptions = {}) {
  checkNames("dft", options, ["reduction"]);
  const { params, reduce } = checkReduction("dft.reduction", options.reduction ?? "token_mean");
  return defineLoss({
    name: "dft",
    params,
    loss: ({ logprobs, weights, ...args }) => ({
      loss: reduce(logprobs.exp().detach().mul(logprobs).neg(), weights, args),
      metrics: { nll: reduce(logprobs.neg(), weights, args) },
    }),
  });
}

/**
 * Unlikelihood (arXiv 1908.04319): `-log(1 - exp(l))` per token, which makes tokens rarer. `l` is held at -1e-6 from above:
 * a token that is certain costs 13.8 nats and has no slope.
 *
 * Metrics: `probability`, the mean of `exp(l)` over the trained tokens.
 */
export function unlikelihood(options: ReductionOptions = {}) {
  checkNames("unlikelihood", options, ["reduction"]);
  const { params, reduce } = checkReduction("unlikelihood.reduction", options.reduction ?? "token_mean");
  return defineLoss({
    name: "unlikelihood",
    params,
    loss: ({ logprobs, weights, ...args }) => ({
      loss: reduce(belowZero(logprobs).log1mexp().neg(), weights, args),
      metrics: { probability: logprobs.exp().mean() },
    }),
  });
}
