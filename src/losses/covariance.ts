// A policy gradient that holds back the few tokens which would cost the most entropy.
import { checkRecord } from "../names.ts";
import type { KlOptions } from "./kl.ts";
import { checkNumber } from "./options.ts";
import { type PolicyOptions, policyLoss } from "./policy.ts";

export interface KlCovOptions<K extends KlOptions | undefined = KlOptions | undefined>
  extends PolicyOptions<K> {
  /** Share of the batch's trained tokens that is held back, above 0 and at most 1; at least one token. Default 0.0002. */
  readonly fraction?: number;
  /** Weight of their absolute log-ratio, at least 0. Default 1. Also a parameter. */
  readonly covCoef?: number;
}

/**
 * KL-Cov (arXiv 2505.22617): `-r A` per token, plus `covCoef abs(l - o)` on the tokens of largest `(A - mean A)(l - mean l)`,
 * means over all trained tokens. Which they are is a constant; of equal ones the earlier. Token mean by default, as in verl.
 * Inputs and metrics as of `importanceSampling`.
 */
export function klCov<K extends KlOptions | undefined = undefined>(options: KlCovOptions<K> = {}) {
  checkRecord("klCov", options);
  const { fraction = 0.0002, covCoef = 1 } = options;
  checkNumber("klCov.fraction", fraction, { above: 0, max: 1 });
  checkNumber("klCov.covCoef", covCoef, { min: 0 });
  return policyLoss(
    {
      path: "klCov",
      own: ["fraction", "covCoef"],
      reduction: "token_mean",
      params: { covCoef },
      surrogate: ({ logprobs, weights, logRatio, ratio, advantages }, { covCoef }) => {
        const ofTokens = weights.gt(0).where(advantages, 0);
        const covariance = ofTokens.sub(ofTokens.mean()).mul(logprobs.sub(logprobs.mean()));
        const count = weights.count().mul(fraction).floor().maximum(1);
        const x = advantages.scale(ratio).neg();
        return covariance.topK(count).where(x.add(logRatio.abs().mul(covCoef)), x);
      },
    },
    options,
  );
}
