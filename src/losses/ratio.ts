// The ratio of the policy to the one that sampled: per token or sequence, held within bounds, clipped, and watched.
import { InputError } from "../errors.ts";
import type { Tensor } from "../loss/tensor.ts";
import { checkChoice, checkNumber } from "./options.ts";
import { straightThrough } from "./pieces.ts";
import { sampleMean } from "./reductions.ts";

type Tokens = Tensor<"token">;

/** Bounds of a ratio. Absolute, as in Tinker and Together: what TRL and verl call an epsilon of 0.2 is 0.8 and 1.2. */
export interface ClipOptions {
  /** Lower bound of the ratio, at least 0. */
  readonly clipLow?: number;
  /** Upper bound of the ratio, at or above `clipLow`. */
  readonly clipHigh?: number;
}

export interface LogRatioOptions {
  /** Bound, in nats and above 0, that the log-ratio is held within on both sides. Default: none. */
  readonly logRatioClamp?: number;
  /**
   * What beyond that bound happens to the gradient: `zero`, as in verl and OpenRLHF, or `pass`, where the ratio at the
   * bound goes on being multiplied with the gradient of `l`, as in xorl. At the bound itself it passes. Default `zero`.
   */
  readonly clampGradient?: (typeof CLAMP_GRADIENTS)[number];
}

const CLAMP_GRADIENTS = ["zero", "pass"] as const;
export const LOG_RATIO_OPTIONS = ["logRatioClamp", "clampGradient"] as const;

/**
 * `token`: the ratio of each token. `sequence`: one for each sample, exp of the mean log-ratio, whose gradient all tokens
 * share. `sequence_token`: of the same value, but each token's gradient is its own (GSPO-token).
 */
export type RatioLevel = (typeof RATIO_LEVELS)[number];
export const RATIO_LEVELS = ["token", "sequence", "sequence_token"] as const;

/** Refuses bounds of a ratio that are out of order. */
export function checkBounds(
  [lowPath, low]: readonly [string, unknown],
  [highPath, high]: readonly [string, unknown],
): void {
  checkNumber(lowPath, low, { min: 0 });
  checkNumber(highPath, high, { above: 0 });
  if (low > high) throw new InputError(highPath, `expected a number of at least ${low}, got ${high}`);
}

export const checkClip = (path: string, { clipLow, clipHigh }: ClipOptions): void =>
  checkBounds([`${path}.clipLow`, clipLow], [`${path}.clipHigh`, clipHigh]);

export function checkLogRatio(
  path: string,
  { logRatioClamp, clampGradient = "zero" }: LogRatioOptions,
): void {
  if (logRatioClamp !== undefined) checkNumber(`${path}.logRatioClamp`, logRatioClamp, { above: 0 });
  checkChoice(`${path}.clampGradient`, clampGradient, CLAMP_GRADIENTS);
}

/** The log-ratio at a level. That of a sequence varies over samples; it is used as if over tokens. */
export function levelled(logRatio: Tokens, weights: Tokens, level: RatioLevel): Tokens {
  if (level === "token") return logRatio;
  const sequence = sampleMean(logRatio, weights) as Tensor<"sample" | "token"> as Tokens;
  return level === "sequence" ? sequence : straightThrough(logRatio, sequence);
}

/** The log-ratio held within its bound. */
export function held(logRatio: Tokens, { logRatioClamp, clampGradient }: LogRatioOptions): Tokens {
  if (logRatioClamp === undefined) return logRatio;
  const value = logRatio.clamp(-logRatioClamp, logRatioClamp);
  return clampGradient === "pass" ? straightThrough(logRatio, value) : value;
}

/**
 * `-min(r A, clip(r) A)`, where the first `r` may be held at `cap` from above; with 0 where `A` is 0, whatever `r` is.
 */
export const clippedSurrogate = (
  ratio: Tokens,
  advantages: Tokens,
  { clipLow, clipHigh }: Required<ClipOptions>,
  cap?: number,
): Tokens =>
  advantages
    .scale(cap === undefined ? ratio : ratio.clamp(undefined, cap))
    .minimum(advantages.mul(ratio.clamp(clipLow, clipHigh)))
    .neg();

/** What is watched of a policy that moves away from the one that sampled. `ratio` is what the loss makes of it. */
export function ratioMetrics(logprobs: Tokens, old: Tokens, ratio: Tokens) {
  const logRatio = logprobs.sub(old);
  const k1 = logRatio.mean().neg();
  const squares = ratio.square().sum();
  return {
    ratioMean: ratio.mean(),
    ratioMax: ratio.max(),
    approxKlK1: k1,
    approxKlK2: logRatio.square().mean().mul(0.5),
    approxKlK3: logRatio.exp().mean().sub(1).add(k1),
    // Squares that overflow mean that one ratio owns the batch.
    effectiveSampleSize: squares.isFinite().where(ratio.sum().square().div(squares.mul(ratio.count())), 0),
  };
}

/** The shares of ratios that were clipped: below the lower bound where `A < 0`, above the upper one where `A > 0`. */
export const clipMetrics = (
  ratio: Tokens,
  advantages: Tokens,
  { clipLow, clipHigh }: Required<ClipOptions>,
) => ({
  clipFractionLow: ratio.lt(clipLow).and(advantages.lt(0)).indicator().mean(),
  clipFractionHigh: ratio.gt(clipHigh).and(advantages.gt(0)).indicator().mean(),
});

/** What is watched of any policy gradient. */
export const policyMetrics = (logprobs: Tokens, advantages: Tokens) => ({
  /** Mean of `-l`: the entropy, as far as the sampled tokens show it. */
  entropyProxy: logprobs.mean().neg(),
  /** Groups whose advantages are all 0, as equal rewards give. */
  zeroVarianceGroups: advantages.abs().max("group").eq(0).count(),
});
