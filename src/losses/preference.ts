// Losses over preference pairs with a frozen reference. A pair is a group of two samples: chosen, then rejected.
import { InputError } from "../errors.ts";
import { defineLoss, perToken } from "../loss/define.ts";
import type { Tensor } from "../loss/tensor.ts";
import { checkNames } from "../names.ts";
import { checkChoice, checkNumber } from "./options.ts";
import { sampleSum } from "./reductions.ts";

const DIVERGENCES = ["reverse_kl", "forward_kl", "js_divergence", "alpha_divergence"] as const;

export interface DpoOptions {
  /** Temperature of the implicit reward, above 0; the higher, the closer to the reference. Default 0.1. */
  readonly beta?: number;
  /** What distance to the reference the reward comes from (f-DPO, arXiv 2309.16240). Default `reverse_kl`. */
  readonly divergence?: (typeof DIVERGENCES)[number];
  /** Order of `alpha_divergence`, other than 1. Default 0.5. */
  readonly alpha?: number;
  /** Weight of the negative log-likelihood of the chosen samples, a mean over all their tokens. Default 0. */
  readonly nllWeight?: number;
}

/** A sequence's score from its log-ratio against the reference. */
function score(
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

/**
 * Direct preference optimisation (arXiv 2305.18290): `-log sigmoid(beta (s_chosen - s_rejected))`, a mean over pairs,
 * where `s` is the weighted sum over a sample of `l - f` and the input `reference` holds `f`. For a loss without a
 * reference give zeros.
 *
 * Metrics: `accuracy`, the share of pairs whose chosen reward is the larger; `margin`, `chosenReward` and
 * `rejectedReward`, means over pairs of the rewards `beta s`.
 */
export function dpo(options: DpoOptions = {}) {
  checkNames("dpo", options, ["beta", "divergence", "alpha", "nllWeight"]);
  const { beta = 0.1, divergence = "reverse_kl", alpha = 0.5, nllWeight = 0 } = options;
  checkNumber("dpo.beta", beta, { above: 0 });
  checkChoice("dpo.divergence", divergence, DIVERGENCES);
  checkNumber("dpo.alpha", alpha);
  if (alpha === 1)
    throw new InputError("dpo.alpha", "expected a number other than 1, got 1; use reverse_kl, its limit");
  checkNumber("dpo.nllWeight", nllWeight, { min: 0 });

  return defineLoss({
    name: "dpo",
    inputs: { reference: perToken() },
    params: { beta },
    loss: ({ logprobs, weights, reference, beta }) => {
      const reward = score(sampleSum(logprobs.sub(reference), weights), divergence, alpha).mul(beta);
      const chosen = reward.member(0);
      const rejected = reward.member(1);
      const margin = chosen.sub(rejected);
      const preference = margin.logSigmoid().neg().mean();
      const metrics = {
        accuracy: margin.gt(0).indicator().mean(),
        margin: margin.mean(),
        chosenReward: chosen.mean(),
        rejectedReward: rejected.mean(),
      };
      if (nllWeight === 0) return { loss: preference, metrics };
      const ofChosen = (x: Tensor<"sample">) => x.member(0).sum();
      const nll = ofChosen(sampleSum(logprobs, weights))
        .neg()
        .div(ofChosen(weights.sum("sample")));
      return { loss: preference.add(nll.mul(nllWeight)), metrics };
    },
  });
}
