// Supervised losses: cross-entropy, and cross-entropy held near a reference.
import { defineLoss, perToken } from "../loss/define.ts";
import { checkNames } from "../names.ts";
import { checkNumber } from "./options.ts";
import { checkReduction, type Reduction, reduce } from "./reductions.ts";

/**
 * Cross-entropy: `-l` per token. Weights are multipliers.
 *
 * @param options.reduction Default `token_mean`.
 */
export function crossEntropy(options: { reduction?: Reduction } = {}) {
  checkNames("crossEntropy", options, ["reduction"]);
  const { reduction = "token_mean" } = options;
  checkReduction("crossEntropy.reduction", reduction);
  return defineLoss({
    name: "cross_entropy",
    loss: ({ logprobs, weights }) => reduce(logprobs.neg(), weights, reduction),
  });
}

/**
 * Regularised supervised fine-tuning: `-l + beta (l - f)^2` per token, where the input `reference` holds `f`, the
 * log-probabilities of a frozen snapshot.
 *
 * Metrics: `nll` and `drift`, the two terms without `beta`, reduced alike.
 *
 * @param options.beta Weight of the drift, at least 0. Default 0.1. Also the parameter `beta` of the loss.
 * @param options.reduction Default `seq_mean_token_mean`.
 */
export function regularizedSft(options: { beta?: number; reduction?: Reduction } = {}) {
  checkNames("regularizedSft", options, ["beta", "reduction"]);
  const { beta = 0.1, reduction = "seq_mean_token_mean" } = options;
  checkNumber("regularizedSft.beta", beta, { min: 0 });
  checkReduction("regularizedSft.reduction", reduction);
  return defineLoss({
    name: "regularized_sft",
    inputs: { reference: perToken() },
    params: { beta },
    loss: ({ logprobs, weights, reference, beta }) => {
      const nll = reduce(logprobs.neg(), weights, reduction);
      const drift = reduce(logprobs.sub(reference).square(), weights, reduction);
      return { loss: nll.add(drift.mul(beta)), metrics: { nll, drift } };
    },
  });
}
