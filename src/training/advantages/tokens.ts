// Advantages of single tokens, from rewards that come token by token: ragged rows in, ragged rows out.

import { checkFlag, checkNumber } from "../../losses/options.ts";
import { checkNames } from "../../names.ts";
import type { Row } from "../../rows/rows.ts";
import { numberAt, readMask, readNumbers, readRows } from "./arguments.ts";
import { mean, quotient, variance } from "./statistics.ts";

type Counts = (sample: number, position: number) => boolean;

const emptyRows = (like: readonly Row[]) => like.map((row) => new Float64Array(row.length));

/** Takes the mean off what counts and divides by its spread (n - 1); the rest becomes 0. */
function whiten(rows: Float64Array[], counts: Counts): Float64Array[] {
  const values = rows.flatMap((row, sample) => [...row].filter((_, position) => counts(sample, position)));
  const [center, spread] = [mean(values), Math.sqrt(variance(values, 1) + 1e-8)];
  return rows.map((row, sample) =>
    row.map((value, position) => (counts(sample, position) ? quotient(value - center, spread) : 0)),
  );
}

const checkDiscount = (path: string, value: unknown) => checkNumber(path, value, { min: 0, max: 1 });

export interface DiscountOptions {
  /** What a reward is worth one token earlier, from 0 to 1. Default 1. */
  readonly gamma?: number;
  /** 0 where the sum begins anew behind a token; what stands there still belongs to it. Default: it runs through. */
  readonly mask?: readonly Row[];
}

/**
 * The discounted sum of what is still to come: `x_t + gamma x_(t+1) + gamma^2 x_(t+2) + ...` of each row.
 *
 * @param rewards One row per sample, of its full length.
 * @returns Rows of the same lengths.
 * @throws {InputError} if a number is not finite, with sample and position.
 */
export function discountedReturns(rewards: readonly Row[], options: DiscountOptions = {}): Float64Array[] {
  checkNames("discountedReturns", options, ["gamma", "mask"]);
  const { gamma = 1 } = options;
  checkDiscount("discountedReturns.gamma", gamma);
  const rows = readRows("rewards", rewards);
  const counts = readMask(options.mask, rows);
  const returns = emptyRows(rows);
  for (const [sample, row] of returns.entries()) {
    let later = 0;
    for (let t = row.length - 1; t >= 0; t--) {
      row[t] = numberAt("rewards", rows, sample, t) + gamma * later;
      later = counts(sample, t) ? row[t]! : 0;
    }
  }
  return returns;
}

/**
 * REINFORCE++ (arXiv 2501.03262): discounted returns, whitened over the batch; 0 where the mask is 0.
 *
 * @param rewards One row per sample, of its full length; a reward for the whole sample stands at its last token.
 * @returns Rows of the same lengths.
 * @throws {InputError} if a number is not finite, with sample and position.
 */
export const reinforcePlusPlusAdvantages = (
  rewards: readonly Row[],
  options: DiscountOptions = {},
): Float64Array[] => whiten(discountedReturns(rewards, options), readMask(options.mask, rewards));

export interface GaeOptions {
  /** A critic's value of each token, of the rewards' lengths. */
  readonly values: readonly Row[];
  /** 0 where a token is passed over, as if it were not there. Default: all count. */
  readonly mask?: readonly Row[];
  /** What a reward is worth one token earlier, from 0 to 1. Default 1. */
  readonly gamma?: number;
  /** From 0, where the critic is trusted, to 1, where the rewards are. Default 0.95, as in TRL; verl has 1. */
  readonly lambda?: number;
  /** Takes the mean of the batch off and divides by its spread, as verl does. Default false. */
  readonly whiten?: boolean;
}

/**
 * Generalised advantage estimation (arXiv 1506.02438), backwards: `g_t = R_t + gamma V_(t+1) - V_t + gamma lambda g_(t+1)`.
 * What stands at masked positions is not read; they get 0.
 *
 * @param rewards One row per sample, of its full length.
 * @returns Rows of the same lengths.
 * @throws {InputError} if lengths differ or a number is not finite, with sample and position.
 */
export function gaeAdvantages(rewards: readonly Row[], options: GaeOptions): Float64Array[] {
  checkNames("gaeAdvantages", options, ["values", "mask", "gamma", "lambda", "whiten"]);
  const { gamma = 1, lambda = 0.95, whiten: whitens = false } = options;
  checkDiscount("gaeAdvantages.gamma", gamma);
  checkDiscount("gaeAdvantages.lambda", lambda);
  checkFlag("gaeAdvantages.whiten", whitens);
  const rows = readRows("rewards", rewards);
  const values = readRows("values", options.values, rows);
  const counts = readMask(options.mask, rows);
  const advantages = emptyRows(rows);
  for (const [sample, row] of advantages.entries()) {
    let [nextValue, next] = [0, 0];
    for (let t = row.length - 1; t >= 0; t--) {
      if (!counts(sample, t)) continue;
      const value = numberAt("values", values, sample, t);
      next = numberAt("rewards", rows, sample, t) + gamma * nextValue - value + gamma * lambda * next;
      nextValue = value;
      row[t] = next;
    }
  }
  return whitens ? whiten(advantages, counts) : advantages;
}

export interface KlCenteredOptions {
  /** One per sample; they are spread over its tokens. */
  readonly advantages: ArrayLike<number>;
  /** Log-probabilities of the frozen reference, rows of the same lengths. */
  readonly reference: readonly Row[];
  /** 0 where nothing is trained. Default: everything is. */
  readonly mask?: readonly Row[];
  /** Weight of the divergence, in units of reward per nat, at least 0. */
  readonly coef: number;
  /** What a penalty is worth one token earlier, from 0 to 1. Default 0: each token answers for itself. */
  readonly gamma?: number;
}

/**
 * Advantages with the divergence from a reference in them instead of in the loss, as in Tinker's cookbook:
 * `A + coef (mean(o - f) - (o - f))`, where the mean is over all tokens of the batch, so that the penalty moves no mean.
 *
 * @param old Log-probabilities of the policy that sampled: one row per sample, of its full length.
 * @returns Rows of the same lengths. Where the mask is 0 stands what a discount carries there from later tokens.
 * @throws {InputError} if lengths differ or a number is not finite, with sample and position.
 */
export function klCenteredAdvantages(old: readonly Row[], options: KlCenteredOptions): Float64Array[] {
  checkNames("klCenteredAdvantages", options, ["advantages", "reference", "mask", "coef", "gamma"]);
  const { coef, gamma = 0 } = options;
  checkNumber("klCenteredAdvantages.coef", coef, { min: 0 });
  checkDiscount("klCenteredAdvantages.gamma", gamma);
  const rows = readRows("old", old);
  const reference = readRows("reference", options.reference, rows);
  const counts = readMask(options.mask, rows);
  const advantages = readNumbers("advantages", options.advantages, rows.length);
  const differences = emptyRows(rows).map((row, sample) =>
    row.map((_, t) =>
      counts(sample, t) ? numberAt("old", rows, sample, t) - numberAt("reference", reference, sample, t) : 0,
    ),
  );
  const center = mean(differences.flatMap((row, sample) => [...row].filter((_, t) => counts(sample, t))));
  const penalties = differences.map((row, sample) =>
    row.map((difference, t) => (counts(sample, t) ? coef * (center - difference) : 0)),
  );
  return discountedReturns(penalties, { gamma }).map((row, sample) =>
    row.map((penalty, t) => (counts(sample, t) ? advantages[sample]! + penalty : penalty)),
  );
}
