// From one value per token to one for the batch: the conventions of public trainers, by name.
import type { Tensor } from "../loss/tensor.ts";
import { checkChoice } from "./options.ts";

/**
 * With weights `m`, per-token values `x`, `S_i = sum m x` and `N_i = sum m` of sample `i`, `N = sum N_i`, `B` samples:
 *
 * | name | value |
 * | --- | --- |
 * | `token_sum` | sum m x |
 * | `token_mean` | sum m x / max(N, 1) |
 * | `token_mean_raw` | sum m x / N |
 * | `seq_mean_token_mean` | mean of S_i / max(N_i, 1); empty samples count |
 * | `seq_mean_token_mean_raw` | mean of S_i / N_i; not finite with an empty sample |
 * | `seq_mean_token_mean_nonempty` | mean of S_i / (N_i + 1e-8) over samples with N_i > 0 |
 * | `seq_mean_token_sum` | mean of S_i |
 * | `seq_mean_token_sum_nonempty` | sum of S_i / number of samples with N_i > 0 |
 */
export type Reduction = keyof typeof REDUCTIONS;

/** Masked sum of each sample. */
export const sampleSum = (x: Tensor<"token">, weights: Tensor<"token">): Tensor<"sample"> =>
  x.mul(weights).sum("sample");

const nonempty = (weights: Tensor<"token">) => weights.count("sample").gt(0).count();

const REDUCTIONS = {
  token_sum: (x, m) => x.mul(m).sum(),
  token_mean: (x, m) => x.mul(m).sum().div(m.sum().maximum(1)),
  token_mean_raw: (x, m) => x.mul(m).sum().div(m.sum()),
  seq_mean_token_mean: (x, m) => sampleSum(x, m).div(m.sum("sample").maximum(1)).mean(),
  seq_mean_token_mean_raw: (x, m) => sampleSum(x, m).div(m.sum("sample")).mean(),
  seq_mean_token_mean_nonempty: (x, m) =>
    sampleSum(x, m).div(m.sum("sample").add(1e-8)).sum().div(nonempty(m)),
  seq_mean_token_sum: (x, m) => sampleSum(x, m).mean(),
  seq_mean_token_sum_nonempty: (x, m) => sampleSum(x, m).sum().div(nonempty(m)),
} satisfies Record<string, (x: Tensor<"token">, weights: Tensor<"token">) => Tensor<"batch">>;

/** Refuses an unknown reduction. */
export function checkReduction(path: string, reduction: unknown): asserts reduction is Reduction {
  checkChoice(path, reduction, Object.keys(REDUCTIONS) as Reduction[]);
}

/** Reduces per-token values by a named convention. */
export const reduce = (x: Tensor<"token">, weights: Tensor<"token">, reduction: Reduction): Tensor<"batch"> =>
  REDUCTIONS[reduction](x, weights);
