// Policy gradients, token by token: plain, weighted by the ratio to the old policy, and clipped.
import { defineLoss } from "../loss/define.ts";
import type { Tensor } from "../loss/tensor.ts";
import { checkNames, checkRecord } from "../names.ts";
import type { KlOptions } from "./kl.ts";
import { checkNumber } from "./options.ts";
import { type AdvantageAxis, advantagesOver, type PolicyOptions, policyLoss } from "./policy.ts";
import { type ClipOptions, checkClip, clipMetrics, clippedSurrogate, policyMetrics } from "./ratio.ts";
import { checkReduction, type Reduction } from "./reductions.ts";

type MaybeKl = KlOptions | undefined;

export interface ReinforceOptions {
  /** Whether the input `advantages` holds one number per sample or one per trained token. Default `sample`. */
  readonly advantages?: AdvantageAxis;
  /** Default `seq_mean_token_mean`; Together's example has `seq_mean_token_mean_raw`. */
  readonly reduction?: Reduction;
}

/**
 * Plain policy gradient (REINFORCE): `-A l` per token, with the input `advantages`.
 *
 * Metrics: `entropyProxy`, the mean of `-l`; `zeroVarianceGroups`, groups whose advantages are all 0.
 */
export function reinforce(options: ReinforceOptions = {}) {
  checkNames("reinforce", options, ["advantages", "reduction"]);
  const { reduction = "seq_mean_token_mean" } = options;
  const inputs = { advantages: advantagesOver("reinforce", options.advantages) };
  const { params, reduce } = checkReduction("reinforce.reduction", reduction);
  return defineLoss({
    name: "reinforce",
    inputs,
    params,
    loss: ({ logprobs, weights, advantages, ...args }) => ({
      loss: reduce(logprobs.mul(advantages).neg(), weights, args),
      metrics: policyMetrics(logprobs, advantages as Tensor<"token">),
    }),
  });
}

/**
 * Importance-sampled policy gradient: `-r A` per token with `r = exp(l - o)`; the input `old` holds `o`, the
 * log-probabilities of the policy that sampled, and `advantages` `A`. Token sum by default, as Tinker's loss of that name.
 *
 * Metrics, as of every loss with a ratio: `ratioMean`, `ratioMax`; `approxKlK1`, `approxKlK2`, `approxKlK3`, estimates of
 * the divergence of the old policy from the new in nats; `effectiveSampleSize`, `(sum r)^2 / (n sum r^2)`; `entropyProxy`,
 * `zeroVarianceGroups`; with `kl` the penalty's estimate without its weight, `kl`. Terms, with `kl`: `policy`, `kl`.
 */
export const importanceSampling = <K extends MaybeKl = undefined>(options: PolicyOptions<K> = {}) =>
  policyLoss(
    {
      path: "importanceSampling",
      reduction: "token_sum",
      surrogate: ({ ratio, advantages }) => advantages.scale(ratio).neg(),
    },
    options,
  );

export interface PpoOptions<K extends MaybeKl = MaybeKl> extends PolicyOptions<K>, ClipOptions {
  /** A number above 1: where `A < 0` a token costs at most `-dualClip A` (arXiv 1912.09729). verl has 3. Default: none. */
  readonly dualClip?: number;
}

/**
 * Proximal policy optimisation (arXiv 1707.06347): `max(-r A, -clip(r) A)` per token, clipped to 0.8 and 1.2 by default.
 * At a bound the gradient passes. Token mean by default; Tinker's loss of that name sums. Inputs and metrics as of
 * `importanceSampling`, and `clipFractionLow`, `clipFractionHigh`: the shares of ratios below the lower bound with `A < 0`,
 * above the upper one with `A > 0`.
 */
export function ppo<K extends MaybeKl = undefined>(options: PpoOptions<K> = {}) {
  checkRecord("ppo", options);
  const { clipLow = 0.8, clipHigh = 1.2, dualClip } = options;
  const clip = { clipLow, clipHigh };
  checkClip("ppo", clip);
  if (dualClip !== undefined) checkNumber("ppo.dualClip", dualClip, { above: 1 });
  return policyLoss(
    {
      path: "ppo",
      own: ["clipLow", "clipHigh", "dualClip"],
      reduction: "token_mean",
      surrogate: ({ ratio, advantages }) => {
        const x = clippedSurrogate(ratio, advantages, clip);
        return dualClip === undefined ? x : advantages.lt(0).where(x.minimum(advantages.mul(-dualClip)), x);
      },
      metrics: ({ ratio, advantages }) => clipMetrics(ratio, advantages, clip),
    },
    options,
  );
}

/**
 * CISPO (MiniMax-M1, arXiv 2506.13585): `-sg(clip(r)) A l` per token: the clipped ratio is a constant weight, and every
 * token keeps a gradient. Bounds 0 and 4 by default, as in Tinker and xorl; TRL has an upper one of 5 and none below,
 * verl 0.8 and 1.2. Token mean by default. Inputs and metrics as of `ppo`.
 */
export function cispo<K extends MaybeKl = undefined>(options: PolicyOptions<K> & ClipOptions = {}) {
  checkRecord("cispo", options);
  const { clipLow = 0, clipHigh = 4 } = options;
  const clip = { clipLow, clipHigh };
  checkClip("cispo", clip);
  return policyLoss(
    {
      path: "cispo",
      own: ["clipLow", "clipHigh"],
      reduction: "token_mean",
      surrogate: ({ logprobs, ratio, advantages }) =>
        ratio.clamp(clipLow, clipHigh).detach().mul(advantages).mul(logprobs).neg(),
      metrics: ({ ratio, advantages }) => clipMetrics(ratio, advantages, clip),
    },
    options,
  );
}

export interface DroOptions<K extends MaybeKl = MaybeKl> extends PolicyOptions<K> {
  /** Weight of the squared log-ratio, at least 0. Default 0.05, Tinker's example; Together asks for it. Also a parameter. */
  readonly beta?: number;
}

/**
 * Direct reward optimisation (arXiv 2405.19107), with given advantages: `-A l + beta / 2 (l - o)^2` per token. Token sum by
 * default, as in Tinker. Inputs and metrics as of `importanceSampling`.
 */
export function dro<K extends MaybeKl = undefined>(options: DroOptions<K> = {}) {
  checkRecord("dro", options);
  const { beta = 0.05 } = options;
  checkNumber("dro.beta", beta, { min: 0 });
  return policyLoss(
    {
      path: "dro",
      own: ["beta"],
      reduction: "token_sum",
      params: { beta },
      surrogate: ({ logprobs, logRatio, advantages }, { beta }) =>
        logRatio.square().mul(beta).mul(0.5).sub(advantages.mul(logprobs)),
    },
    options,
  );
}
