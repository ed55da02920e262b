// GRPO and its relatives: one clipped surrogate, told apart by their ratios, bounds and reductions.
import { InputError } from "../errors.ts";
import { checkRecord } from "../names.ts";
import type { KlOptions } from "./kl.ts";
import { checkChoice, checkNumber } from "./options.ts";
import { type PolicyLoss, type PolicyOptions, policyLoss } from "./policy.ts";
import {
  type ClipOptions,
  checkClip,
  clipMetrics,
  clippedSurrogate,
  RATIO_LEVELS,
  type RatioLevel,
} from "./ratio.ts";
import { type Reduction, sampleMean } from "./reductions.ts";

type MaybeKl = KlOptions | undefined;

export interface GrpoOptions<K extends MaybeKl = MaybeKl> extends PolicyOptions<K>, ClipOptions {
  /** What the ratio is taken of. Default `token`; of `gspo` and `luspo` `sequence`, of `gspoToken` `sequence_token`. */
  readonly ratio?: RatioLevel;
  /** Upper bound, at or above `clipHigh`, of the ratio that is not clipped: limits what `A < 0` can cost. Default: none. */
  readonly delta?: number;
  /**
   * Drops samples of negative advantage that have gone too far from the policy that sampled them: those whose mean of
   * `o - l`, in nats, is above this number (DeepSeek-V3.2's sequence mask). A constant choice. Default: none.
   */
  readonly offPolicyThreshold?: number;
}

type GrpoLoss<K extends MaybeKl> = PolicyLoss<K, "clipFractionLow" | "clipFractionHigh">;

interface Preset {
  readonly reduction: Reduction;
  readonly ratio?: RatioLevel;
  readonly clip?: Required<ClipOptions>;
}

function groupRelative<K extends MaybeKl>(
  path: string,
  preset: Preset,
  options: GrpoOptions<K>,
): GrpoLoss<K> {
  checkRecord(path, options);
  const { ratio: level = preset.ratio ?? "token", delta, offPolicyThreshold } = options;
  const { clipLow = preset.clip?.clipLow ?? 0.8, clipHigh = preset.clip?.clipHigh ?? 1.2 } = options;
  const clip = { clipLow, clipHigh };
  checkClip(path, clip);
  checkChoice(`${path}.ratio`, level, RATIO_LEVELS);
  if (delta !== undefined) checkNumber(`${path}.delta`, delta, { min: clipHigh });
  if (offPolicyThreshold !== undefined) checkNumber(`${path}.offPolicyThreshold`, offPolicyThreshold);
  if (level === "sequence" && options.clampGradient === "pass")
    throw new InputError(`${path}.clampGradient`, 'expected "zero" with the ratio of a sequence, got "pass"');

  return policyLoss(
    {
      path,
      own: ["clipLow", "clipHigh", "ratio", "delta", "offPolicyThreshold"],
      reduction: preset.reduction,
      level,
      surrogate: ({ logprobs, old, weights, advantages, ratio }) => {
        const x = clippedSurrogate(ratio, advantages, clip, delta);
        if (offPolicyThreshold === undefined) return x;
        const drift = sampleMean(old.sub(logprobs.detach()), weights);
        return advantages.ge(0).or(drift.le(offPolicyThreshold)).where(x, 0);
      },
      metrics: ({ ratio, advantages }) => clipMetrics(ratio, advantages, clip),
    },
    options,
  );
}

/**
 * Group relative policy optimisation (DeepSeekMath, arXiv 2402.03300): `-min(r A, clip(r) A)` per token, clipped to 0.8 and
 * 1.2 by default, plus the penalty of `kl`. The input `advantages` holds rewards less the mean of their group, normalised
 * or not. Mean of sample means by default, where empty samples count, as in TRL.
 *
 * Inputs: `old` per token, `advantages`; `reference` with `kl`, `rollout` with `correction`. Metrics as of `ppo`.
 */
export const grpo = <K extends MaybeKl = undefined>(options: GrpoOptions<K> = {}): GrpoLoss<K> =>
  groupRelative("grpo", { reduction: "seq_mean_token_mean" }, options);

/** `grpo` with one mean over all tokens of the batch; TRL's `bnpo`. */
export const bnpo = <K extends MaybeKl = undefined>(options: GrpoOptions<K> = {}): GrpoLoss<K> =>
  groupRelative("bnpo", { reduction: "token_mean" }, options);

/**
 * `grpo` without any mean over a length (Dr. GRPO, arXiv 2503.20783): a sum over tokens divided by the samples and a
 * constant.
 *
 * @param options.reduction Must be given, since only the caller knows the horizon, the longest completion allowed:
 * `{ type: "fixed_horizon", horizon: 1024 }`.
 */
export const drGrpo = <K extends MaybeKl = undefined>(
  options: GrpoOptions<K> & { readonly reduction: Reduction },
): GrpoLoss<K> => groupRelative("drGrpo", { reduction: options?.reduction }, options);

/**
 * `grpo` clipped to 0.8 and 1.28, with one mean over all tokens (DAPO, arXiv 2503.14476). TRL divides by the tokens of the
 * whole generation batch: `reduction: { type: "constant", normalizer }`.
 */
export const dapo = <K extends MaybeKl = undefined>(options: GrpoOptions<K> = {}): GrpoLoss<K> =>
  groupRelative("dapo", { reduction: "token_mean", clip: { clipLow: 0.8, clipHigh: 1.28 } }, options);

/**
 * Length-unbiased sequence policy optimisation (arXiv 2602.05261): `grpo` with the ratio of sequences, where a sample
 * counts by its length: a mean over samples of sums over tokens.
 */
export const luspo = <K extends MaybeKl = undefined>(options: GrpoOptions<K> = {}): GrpoLoss<K> =>
  groupRelative("luspo", { reduction: "seq_mean_token_sum", ratio: "sequence" }, options);

const GSPO_CLIP = { clipLow: 1 - 3e-4, clipHigh: 1 + 4e-4 };

/**
 * Group sequence policy optimisation (arXiv 2507.18071): `grpo` with one ratio for each sample, `exp(mean(l - o))`, clipped
 * to 1 - 3e-4 and 1 + 4e-4 by default. Metrics of the ratio are over samples.
 */
export const gspo = <K extends MaybeKl = undefined>(options: GrpoOptions<K> = {}): GrpoLoss<K> =>
  groupRelative("gspo", { reduction: "seq_mean_token_mean", ratio: "sequence", clip: GSPO_CLIP }, options);

/**
 * GSPO-token (the same paper): the ratio's value is that of the sequence, its gradient is each token's own, so that
 * advantages may differ within a sample. Clipped as `gspo`. verl holds the log-ratio at 10 from above: `logRatioClamp: 10`
 * does so on both sides.
 */
export const gspoToken = <K extends MaybeKl = undefined>(options: GrpoOptions<K> = {}): GrpoLoss<K> =>
  groupRelative(
    "gspoToken",
    { reduction: "seq_mean_token_mean", ratio: "sequence_token", clip: GSPO_CLIP },
    options,
  );
