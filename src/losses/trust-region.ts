// Policy gradients that hold the policy near the old one by other means than a clipped ratio.
import type { Mask, Tensor } from "../loss/tensor.ts";
import { checkRecord } from "../names.ts";
import type { KlOptions } from "./kl.ts";
import { checkChoice, checkNumber } from "./options.ts";
import { belowZero } from "./pieces.ts";
import { type PolicyOptions, type PolicyTerms, policyLoss } from "./policy.ts";

type MaybeKl = KlOptions | undefined;

export interface SapoOptions<K extends MaybeKl = MaybeKl> extends PolicyOptions<K> {
  /** Temperature of the gate where `A > 0`, above 0. Default 1. */
  readonly tauPositive?: number;
  /** Temperature of the gate elsewhere, above 0. Default 1.05. */
  readonly tauNegative?: number;
}

/**
 * Soft adaptive policy optimisation (arXiv 2511.20347): `-A 4/tau sigmoid(tau (r - 1))` per token, a gate that closes
 * smoothly. Mean of sample means by default, as in TRL; verl leaves empty samples out. Inputs and metrics as of
 * `importanceSampling`.
 */
export function sapo<K extends MaybeKl = undefined>(options: SapoOptions<K> = {}) {
  checkRecord("sapo", options);
  const { tauPositive = 1, tauNegative = 1.05 } = options;
  checkNumber("sapo.tauPositive", tauPositive, { above: 0 });
  checkNumber("sapo.tauNegative", tauNegative, { above: 0 });
  return policyLoss(
    {
      path: "sapo",
      own: ["tauPositive", "tauNegative"],
      reduction: "seq_mean_token_mean",
      surrogate: ({ ratio, advantages }) => {
        const tau = advantages.gt(0).where(tauPositive, tauNegative);
        return ratio.sub(1).mul(tau).sigmoid().mul(advantages.mul(-4).div(tau));
      },
    },
    options,
  );
}

export interface DppoOptions<K extends MaybeKl = MaybeKl> extends PolicyOptions<K> {
  /**
   * What is held small: `tv`, the change `p - p_old` of the token's probability, or `kl`, the divergence of the old from the
   * new policy as far as this token or any other goes, in nats. Default `tv`.
   */
  readonly divergence?: keyof typeof NEAR;
  /** Largest change that a token of `A <= 0` may have made downwards, at least 0. Default 0.15. */
  readonly deltaLow?: number;
  /** Largest change that a token of `A > 0` may have made upwards, at least 0. Default 0.15. */
  readonly deltaHigh?: number;
  /** Largest weight of a token, above 0. Default 20. */
  readonly ratioCap?: number;
}

type Near = (terms: PolicyTerms, deltaLow: number, deltaHigh: number) => Mask<"token">;

/** Divergence of one choice between a token and any other from another such, by the token's log-probabilities. */
function binaryKl(old: Tensor<"token">, logprobs: Tensor<"token">): Tensor<"token"> {
  const [o, l] = [belowZero(old), belowZero(logprobs)];
  const other = o.exp().neg().add(1).mul(o.log1mexp().sub(l.log1mexp()));
  return o.exp().mul(o.sub(l)).add(other);
}

/** The tokens that have not gone too far in the direction of their advantage. */
const NEAR = {
  tv: ({ logprobs, old, advantages }, low, high) => {
    const change = logprobs.exp().sub(old.exp());
    const rises = advantages.gt(0);
    return rises.and(change.le(high)).or(rises.not().and(change.ge(-low)));
  },
  kl: ({ logprobs, old, advantages }, low, high) => {
    const divergence = binaryKl(old, logprobs);
    const rises = advantages.gt(0);
    const tooHigh = rises.and(logprobs.gt(old)).and(divergence.gt(high));
    return tooHigh.or(rises.not().and(logprobs.lt(old)).and(divergence.gt(low))).not();
  },
} satisfies Record<string, Near>;
const DIVERGENCES = Object.keys(NEAR) as (keyof typeof NEAR)[];

/**
 * Divergence PPO (arXiv 2602.04879), on the sampled token: `-A sg(min(r, ratioCap)) l`, and 0 for tokens that have gone
 * further than allowed in the direction of their advantage. Weight and choice are constants. Token mean by default. Inputs
 * and metrics as of `importanceSampling`, and `kept`, the share of tokens.
 */
export function dppo<K extends MaybeKl = undefined>(options: DppoOptions<K> = {}) {
  checkRecord("dppo", options);
  const { divergence = "tv", deltaLow = 0.15, deltaHigh = 0.15, ratioCap = 20 } = options;
  checkChoice("dppo.divergence", divergence, DIVERGENCES);
  checkNumber("dppo.deltaLow", deltaLow, { min: 0 });
  checkNumber("dppo.deltaHigh", deltaHigh, { min: 0 });
  checkNumber("dppo.ratioCap", ratioCap, { above: 0 });

  const near = (terms: PolicyTerms) => NEAR[divergence](terms, deltaLow, deltaHigh);
  return policyLoss(
    {
      path: "dppo",
      own: ["divergence", "deltaLow", "deltaHigh", "ratioCap"],
      reduction: "token_mean",
      surrogate: (terms) => {
        const weight = near(terms).where(terms.ratio.clamp(undefined, ratioCap), 0).detach();
        return weight.mul(terms.advantages).mul(terms.logprobs).neg();
      },
      metrics: (terms) => ({ kept: near(terms).indicator().mean() }),
    },
    options,
  );
}
