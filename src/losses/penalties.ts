// Penalties to add to other losses; each is a loss of its own too.
import { defineLoss, perToken } from "../loss/define.ts";
import { checkNames, checkRecord } from "../names.ts";
import { checkKl, type KlOptions, klEstimate } from "./kl.ts";
import { checkChoice, checkNumber } from "./options.ts";
import { checkReduction, type Reduction } from "./reductions.ts";

export interface KlPenaltyOptions extends KlOptions {
  /** Default `token_mean`; take that of the loss beside it. */
  readonly reduction?: Reduction;
}

/**
 * Penalty on the divergence from a frozen reference: `coef k(l, f)` per token, where the input `reference` holds `f`.
 *
 * Metrics: `kl`, the estimate without `coef`, reduced alike.
 */
export function klPenalty(options: KlPenaltyOptions = {}) {
  checkRecord("klPenalty", options);
  const { reduction = "token_mean", ...rest } = options;
  const { coef, estimator, timesRatio } = checkKl("klPenalty", rest);
  const { params, reduce } = checkReduction("klPenalty.reduction", reduction);
  return defineLoss({
    name: "kl_penalty",
    inputs: { reference: perToken(), ...(timesRatio && { old: perToken() }) },
    params: { coef, ...params },
    loss: ({ logprobs, weights, reference, old, coef, ...args }) => {
      const estimate = klEstimate(logprobs, reference, estimator);
      const weighed = old === undefined ? estimate : estimate.scale(logprobs.sub(old).exp());
      const divergence = reduce(weighed, weights, args);
      return { loss: divergence.mul(coef), metrics: { kl: divergence } };
    },
  });
}

export interface EntropyProxyOptions {
  /** Weight, at least 0. Default 0.01. Also a parameter. */
  readonly coef?: number;
  /**
   * `plain`: `coef l`, whose value is minus `coef` times the entropy in the mean, with a constant slope. `score`:
   * `coef sg(l) l`, whose slope is the estimate of minus the entropy's gradient by the score function. Default `plain`.
   */
  readonly kind?: (typeof KINDS)[number];
  /** Default `token_mean`; take that of the loss beside it. */
  readonly reduction?: Reduction;
}

const KINDS = ["plain", "score"] as const;

/**
 * Entropy bonus from the log-probabilities of sampled tokens alone. An exact one needs the full distribution, which no
 * client of the service sees.
 *
 * Metrics: `entropyProxy`, the mean of `-l` over the trained tokens, in nats.
 */
export function entropyProxy(options: EntropyProxyOptions = {}) {
  checkNames("entropyProxy", options, ["coef", "kind", "reduction"]);
  const { coef = 0.01, kind = "plain", reduction = "token_mean" } = options;
  checkNumber("entropyProxy.coef", coef, { min: 0 });
  checkChoice("entropyProxy.kind", kind, KINDS);
  const { params, reduce } = checkReduction("entropyProxy.reduction", reduction);
  return defineLoss({
    name: "entropy_proxy",
    params: { coef, ...params },
    loss: ({ logprobs, weights, coef, ...args }) => {
      const x = kind === "plain" ? logprobs : logprobs.detach().mul(logprobs);
      return {
        loss: reduce(x, weights, args).mul(coef),
        metrics: { entropyProxy: logprobs.mean().neg() },
      };
    },
  });
}
