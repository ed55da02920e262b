// Advantages of the completions of one prompt among each other: one number per sample.
import { describe, InputError } from "../../errors.ts";
import { checkChoice, checkFlag, checkNumber } from "../../losses/options.ts";
import { checkNames } from "../../names.ts";
import { type Groups, readNumbers, scoredGroups } from "./arguments.ts";
import { mean, quotient, variance } from "./statistics.ts";

const SCALES = ["group", "batch", "none"] as const;
const SINGLETONS = ["zero", "raw"] as const;

export interface GroupNormOptions {
  /** Samples per group, neighbours in the batch: one size for all, or a list of sizes. */
  readonly groups: Groups;
  /** What advantages are in units of: the group's spread, the whole batch's, or the reward's own. Default `group`. */
  readonly scale?: (typeof SCALES)[number];
  /** Added to the spread, at least 0. Default 1e-4, as in TRL; verl has 1e-6. */
  readonly eps?: number;
  /** The spread divides by `n - correction`: 1, the default and that of the public trainers, or 0. */
  readonly correction?: 0 | 1;
  /** What a group of one gets: 0, as in TRL, or its reward over 1 + eps, as in verl. Default `zero`. */
  readonly singleton?: (typeof SINGLETONS)[number];
}

/**
 * Rewards less the mean of their group, in units of a spread (GRPO): `(R - mean) / (std + eps)`. With `scale: "none"` the
 * plain difference (Dr. GRPO, Tinker's cookbook). Equal rewards give exactly 0. A reward of NaN could not be found: it takes
 * no part in mean and spread and gets 0.
 *
 * @param rewards One per sample.
 * @returns One advantage per sample.
 * @throws {InputError} if a reward is infinite, or the groups do not add up.
 */
export function groupNormAdvantages(rewards: ArrayLike<number>, options: GroupNormOptions): Float64Array {
  checkNames("groupNormAdvantages", options, ["groups", "scale", "eps", "correction", "singleton"]);
  const { scale = "group", eps = 1e-4, correction = 1, singleton = "zero" } = options;
  checkChoice("groupNormAdvantages.scale", scale, SCALES);
  checkNumber("groupNormAdvantages.eps", eps, { min: 0 });
  if (correction !== 0 && correction !== 1) {
    throw new InputError("groupNormAdvantages.correction", `expected 0 or 1, got ${describe(correction)}`);
  }
  checkChoice("groupNormAdvantages.singleton", singleton, SINGLETONS);
  const values = readNumbers("rewards", rewards, undefined, "NaN");
  const groups = scoredGroups(values, options.groups);
  const spreadOf = (list: readonly number[]) => Math.sqrt(variance(list, correction));
  const ofBatch = scale === "batch" ? spreadOf(values.filter((value) => !Number.isNaN(value))) : 0;

  const advantages = new Float64Array(values.length);
  for (const members of groups) {
    const own = members.map((sample) => values[sample]!);
    const isRaw = own.length === 1 && singleton === "raw";
    const center = isRaw ? 0 : mean(own);
    const spread = scale === "batch" ? ofBatch : isRaw ? 1 : scale === "group" ? spreadOf(own) : 0;
    const unit = scale === "none" ? 1 : spread + eps;
    for (const sample of members) advantages[sample] = quotient(values[sample]! - center, unit);
  }
  return advantages;
}

export interface RlooAdvantageOptions {
  /** Samples per group, neighbours in the batch: one size for all, or a list of sizes. */
  readonly groups: Groups;
  /** Also takes the mean of the batch off and divides by its spread (n - 1) plus 1e-4, as TRL may. Default false. */
  readonly normalize?: boolean;
}

/**
 * Rewards less the mean of the others of their group (RLOO, arXiv 2402.14740). A group of one gets 0, as does a reward of
 * NaN, which takes no part.
 *
 * @param rewards One per sample.
 * @returns One advantage per sample.
 * @throws {InputError} if a reward is infinite, or the groups do not add up.
 */
export function rlooAdvantages(rewards: ArrayLike<number>, options: RlooAdvantageOptions): Float64Array {
  checkNames("rlooAdvantages", options, ["groups", "normalize"]);
  const { normalize = false } = options;
  checkFlag("rlooAdvantages.normalize", normalize);
  const values = readNumbers("rewards", rewards, undefined, "NaN");
  const groups = scoredGroups(values, options.groups);
  const advantages = new Float64Array(values.length);
  for (const members of groups) {
    const center = mean(members.map((sample) => values[sample]!));
    const others = members.length - 1;
    // What is left of the mean when a member is taken out of it.
    for (const sample of members)
      advantages[sample] = others === 0 ? 0 : ((values[sample]! - center) * members.length) / others;
  }
  if (!normalize) return advantages;
  const scored = groups.flat();
  const all = scored.map((sample) => advantages[sample]!);
  const [center, spread] = [mean(all), Math.sqrt(variance(all, 1))];
  for (const sample of scored) advantages[sample] = quotient(advantages[sample]! - center, spread + 1e-4);
  return advantages;
}

export interface OpoOptions {
  /** Samples per group, neighbours in the batch: one size for all, or a list of sizes. */
  readonly groups: Groups;
  /** Length of each completion, in trained tokens. */
  readonly lengths: ArrayLike<number>;
}

/**
 * Rewards less the mean of their group weighted by length, the baseline of least variance (OPO, arXiv 2505.23585). A reward
 * of NaN takes no part and gets 0.
 *
 * @param rewards One per sample.
 * @returns One advantage per sample.
 * @throws {InputError} if a reward is infinite, a length negative, or the groups do not add up.
 */
export function opoAdvantages(rewards: ArrayLike<number>, options: OpoOptions): Float64Array {
  checkNames("opoAdvantages", options, ["groups", "lengths"]);
  const values = readNumbers("rewards", rewards, undefined, "NaN");
  const lengths = readNumbers("lengths", options.lengths, values.length);
  for (const [sample, length] of lengths.entries()) checkNumber(`lengths[${sample}]`, length, { min: 0 });
  const advantages = new Float64Array(values.length);
  for (const members of scoredGroups(values, options.groups)) {
    const baseline = mean(
      members.map((sample) => values[sample]!),
      members.map((sample) => lengths[sample]!),
    );
    for (const sample of members) advantages[sample] = values[sample]! - baseline;
  }
  return advantages;
}

export interface PassAtKOptions {
  /** Samples per group, neighbours in the batch: one size for all, or a list of sizes. */
  readonly groups: Groups;
  /** Divides by the group's spread (n - 1) plus `eps`, as verl does by default. Default false. */
  readonly normalize?: boolean;
  /** At least 0. Default 1e-6. */
  readonly eps?: number;
}

/**
 * What the best of each group adds to the second best, for that one alone; all others get 0 (pass@k, arXiv 2503.19595). Two
 * equal best ones, and groups of one, get 0. A reward of NaN takes no part.
 *
 * @param rewards One per sample.
 * @returns One advantage per sample.
 * @throws {InputError} if a reward is infinite, or the groups do not add up.
 */
export function passAtKAdvantages(rewards: ArrayLike<number>, options: PassAtKOptions): Float64Array {
  checkNames("passAtKAdvantages", options, ["groups", "normalize", "eps"]);
  const { normalize = false, eps = 1e-6 } = options;
  checkFlag("passAtKAdvantages.normalize", normalize);
  checkNumber("passAtKAdvantages.eps", eps, { min: 0 });
  const values = readNumbers("rewards", rewards, undefined, "NaN");
  const advantages = new Float64Array(values.length);
  for (const members of scoredGroups(values, options.groups)) {
    const [best, second] = members.toSorted((a, b) => values[b]! - values[a]!);
    if (best === undefined || second === undefined) continue;
    const spread = Math.sqrt(
      variance(
        members.map((sample) => values[sample]!),
        1,
      ),
    );
    advantages[best] = quotient(values[best]! - values[second]!, normalize ? spread + eps : 1);
  }
  return advantages;
}
