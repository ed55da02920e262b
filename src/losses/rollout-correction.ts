// Corrects for a sampler whose log-probabilities differ from those of the policy that the ratio starts from.
import type { Tensor } from "../loss/tensor.ts";
import { checkNames } from "../names.ts";
import { checkChoice } from "./options.ts";
import { checkBounds } from "./ratio.ts";
import { sampleMean, sampleSum } from "./reductions.ts";

type Tokens = Tensor<"token">;

/**
 * With `e = o - q`, old policy less sampler:
 *
 * | mode | factor | as in |
 * | --- | --- | --- |
 * | `token_truncate` | exp(e) held within the bounds | verl and OpenRLHF `tis` |
 * | `token_mask` | exp(e), 0 outside the bounds | OpenRLHF `icepop` |
 * | `sequence_truncate` | exp(S(e)) held within the bounds | TRL |
 * | `sequence_mask` | exp(S(e)), 0 outside the bounds | TRL's default, with max 3 |
 * | `geo_mask_token` | exp(e), 0 in samples whose exp(mean e) is outside the bounds | OpenRLHF `seq-mask-tis` |
 */
export interface RolloutCorrection {
  readonly mode: CorrectionMode;
  /** Smallest factor that is kept as it is, at least 0. Default 0. A bound belongs to what is kept. */
  readonly min?: number;
  /** Largest factor that is kept as it is, a ratio at or above `min`. Public trainers use 2 for tokens, 3 for sequences. */
  readonly max: number;
}

type CorrectionMode = keyof typeof MODES;
type Keep = (factor: Tokens, bounds: Required<Omit<RolloutCorrection, "mode">>) => Tokens;

const truncate: Keep = (factor, { min, max }) => factor.clamp(min, max);
const isWithin = (factor: Tokens, { min, max }: Parameters<Keep>[1]) => factor.ge(min).and(factor.le(max));
const mask: Keep = (factor, bounds) => isWithin(factor, bounds).where(factor, 0);
/** A number per sample, used as one per token: what is done with it next spreads it. */
const spread = (x: Tensor<"sample">) => x as Tensor<"sample" | "token"> as Tokens;

const MODES = {
  token_truncate: (e, _weights, bounds) => truncate(e.exp(), bounds),
  token_mask: (e, _weights, bounds) => mask(e.exp(), bounds),
  sequence_truncate: (e, weights, bounds) => truncate(spread(sampleSum(e, weights).exp()), bounds),
  sequence_mask: (e, weights, bounds) => mask(spread(sampleSum(e, weights).exp()), bounds),
  geo_mask_token: (e, weights, bounds) =>
    isWithin(spread(sampleMean(e, weights).exp()), bounds).where(e.exp(), 0),
} satisfies Record<string, (e: Tokens, weights: Tokens, bounds: Parameters<Keep>[1]) => Tokens>;

export function checkCorrection(path: string, correction: unknown): asserts correction is RolloutCorrection {
  checkNames(path, correction, ["mode", "min", "max"]);
  const { mode, min = 0, max } = correction as Partial<RolloutCorrection>;
  checkChoice(`${path}.mode`, mode, Object.keys(MODES) as CorrectionMode[]);
  checkBounds([`${path}.min`, min], [`${path}.max`, max]);
}

/** The factor, a constant, that a policy loss is multiplied by. */
export const correctionFactor = (
  old: Tokens,
  rollout: Tokens,
  weights: Tokens,
  { mode, min = 0, max }: RolloutCorrection,
): Tokens => MODES[mode](old.sub(rollout), weights, { min, max });
