// From one value per token to one for the batch: the conventions of public trainers, by name.
import { describe, InputError } from "../errors.ts";
import type { Tensor } from "../loss/tensor.ts";
import { checkNames } from "../names.ts";
import { checkChoice, checkNumber } from "./options.ts";

type Tokens = Tensor<"token">;

/**
 * With weights `m`, per-token values `x`, `S_i = sum m x` and `N_i = sum m` of sample `i`, `N = sum N_i`, `B` samples:
 *
 * | name | value | as in |
 * | --- | --- | --- |
 * | `token_sum` | sum m x | Tinker's built-in losses |
 * | `token_mean` | sum m x / max(N, 1) | TRL `bnpo`, OpenRLHF, verl `token-mean` |
 * | `token_mean_raw` | sum m x / N | |
 * | `seq_mean_token_mean` | mean of S_i / max(N_i, 1); empty samples count | TRL `grpo` |
 * | `seq_mean_token_mean_raw` | mean of S_i / N_i; not finite with an empty sample | Together's examples |
 * | `seq_mean_token_mean_nonempty` | mean of S_i / (N_i + 1e-8) over samples with N_i > 0 | verl `seq-mean-token-mean` |
 * | `seq_mean_token_sum` | mean of S_i | TRL `luspo` |
 * | `seq_mean_token_sum_nonempty` | sum of S_i / number of samples with N_i > 0 | verl `seq-mean-token-sum` |
 * | `fixed_horizon` | sum m x / (B `horizon`) | TRL `dr_grpo` |
 * | `fixed_horizon_sum` | sum m x / `horizon` | verl `seq-mean-token-sum-norm` |
 * | `constant` | sum m x / max(`normalizer`, 1) | TRL `dapo` |
 *
 * The last three take a number, in tokens: `{ type: "fixed_horizon", horizon: 1024 }`. It becomes a parameter of the loss,
 * `horizon` or `normalizer`, and may change from run to run: a batch that is split over several calls keeps its meaning
 * when each call is given the `normalizer` of the whole.
 *
 * A raw mean divides weights that add up to less than 1 by what they add up to; a guarded one by 1.
 */
export type Reduction = Plain | Scaled;

type Plain = keyof typeof PLAIN;
type Scaled =
  | { readonly type: "fixed_horizon" | "fixed_horizon_sum"; readonly horizon: number }
  | { readonly type: "constant"; readonly normalizer: number };

/** The parameters that a reduction adds to its loss. */
export type ReductionParams = { readonly horizon?: number; readonly normalizer?: number };

/** A reduction whose options have been checked. */
export interface Reducer {
  readonly params: ReductionParams;
  /** `args` is what the loss function was called with. */
  reduce(
    x: Tokens,
    weights: Tokens,
    args: { readonly [Name in keyof ReductionParams]: Tensor<"batch"> },
  ): Tensor<"batch">;
}

/** Weighted sum of each sample. */
export const sampleSum = (x: Tokens, weights: Tokens): Tensor<"sample"> => weights.mul(x).sum("sample");

/** Weighted mean of each sample; 0 of an empty one. */
export const sampleMean = (x: Tokens, weights: Tokens): Tensor<"sample"> =>
  sampleSum(x, weights).unscale(weights.sum("sample"));

const batchSum = (x: Tokens, m: Tokens) => m.mul(x).sum();
const nonempty = (m: Tokens) => m.count("sample").gt(0).count();

const PLAIN = {
  token_sum: (x, m) => batchSum(x, m),
  token_mean: (x, m) => batchSum(x, m).div(m.sum().maximum(1)),
  token_mean_raw: (x, m) => batchSum(x, m).div(m.sum()),
  seq_mean_token_mean: (x, m) => sampleSum(x, m).div(m.sum("sample").maximum(1)).mean(),
  seq_mean_token_mean_raw: (x, m) => sampleSum(x, m).div(m.sum("sample")).mean(),
  seq_mean_token_mean_nonempty: (x, m) =>
    sampleSum(x, m).div(m.sum("sample").add(1e-8)).sum().div(nonempty(m)),
  seq_mean_token_sum: (x, m) => sampleSum(x, m).mean(),
  seq_mean_token_sum_nonempty: (x, m) => sampleSum(x, m).sum().div(nonempty(m)),
} satisfies Record<string, (x: Tokens, weights: Tokens) => Tensor<"batch">>;

const SCALED = {
  fixed_horizon: (x, m, { horizon }) => sampleSum(x, m).mean().div(horizon!),
  fixed_horizon_sum: (x, m, { horizon }) => batchSum(x, m).div(horizon!),
  constant: (x, m, { normalizer }) => batchSum(x, m).div(normalizer!.maximum(1)),
} satisfies Record<Scaled["type"], Reducer["reduce"]>;

const NUMBER_OF = { fixed_horizon: "horizon", fixed_horizon_sum: "horizon", constant: "normalizer" } as const;

/** Checks a reduction and gives what computes it. `path` is how the caller wrote it. */
export function checkReduction(path: string, reduction: unknown): Reducer {
  if (typeof reduction === "string") {
    checkChoice(path, reduction, Object.keys(PLAIN) as Plain[]);
    return { params: {}, reduce: PLAIN[reduction] };
  }
  if (typeof reduction !== "object" || reduction === null) {
    throw new InputError(path, `expected the name of a reduction or an object, got ${describe(reduction)}`);
  }
  const { type, ...params } = reduction as Scaled;
  checkChoice(`${path}.type`, type, Object.keys(SCALED) as Scaled["type"][]);
  const name = NUMBER_OF[type];
  checkNames(path, reduction, ["type", name]);
  checkNumber(`${path}.${name}`, (params as ReductionParams)[name], { above: 0 });
  return { params, reduce: SCALED[type] };
}
