// The forms of direct preference optimisation: the cost of each pair, by name.
import type { Tensor } from "../loss/tensor.ts";
import { chosenOf, logistic, marginOf, type Pairs, rejectedOf, smoothedLogistic } from "./pairs.ts";

/** What the cost of a pair is made of; `l` is the policy, `f` the reference, `S` a sum over a sample. */
export interface PairParts {
  /** `s`: the log-ratio `S(l - f)`, or what a divergence makes of it. */
  readonly score: Tensor<"sample">;
  /** `s` over the length of the sample. */
  readonly scorePerToken: Tensor<"sample">;
  /** `S(l)`. */
  readonly policy: Tensor<"sample">;
  /** `S(f)`. */
  readonly reference: Tensor<"sample">;
  readonly beta: Tensor<"batch">;
  /** Probability that a label is wrong. */
  readonly smoothing: number;
  readonly tau: number;
}

/**
 * Costs of a pair. With `z = beta (s_chosen - s_rejected)`, `h = 1 / (2 beta)`, `n` the length of a sample in tokens and
 * `e` the label smoothing:
 *
 * | type | cost | from |
 * | --- | --- | --- |
 * | `sigmoid` | -(1 - e) log sigmoid(z) - e log sigmoid(-z) | DPO, arXiv 2305.18290; with e > 0 conservative DPO |
 * | `sigmoid_norm` | -log sigmoid(beta (s_c/n_c - s_j/n_j)) | length-normalised, arXiv 2411.15124 |
 * | `robust` | (-(1 - e) log sigmoid(z) + e log sigmoid(-z)) / (1 - 2 e) | arXiv 2403.00409; may be negative |
 * | `hinge` | relu(1 - z) | SLiC-HF, arXiv 2305.10425 |
 * | `ipo` | (s_c/n_c - s_j/n_j - h)^2 | IPO, arXiv 2310.12036, means as in TRL |
 * | `ipo_sum` | (s_c - s_j - h)^2 | the same with sums, as in the paper and OpenRLHF; grows with length |
 * | `exo_pair` | sigmoid(z) (log sigmoid(z) - log(1 - e)) + sigmoid(-z) (log sigmoid(-z) - log e) | EXO, arXiv 2402.00856; e > 0 |
 * | `nca_pair` | -log sigmoid(beta s_c) - log sigmoid(-beta s_c) / 2 - log sigmoid(-beta s_j) / 2 | NCA, arXiv 2402.05369 |
 * | `bco_pair` | -log sigmoid(beta s_c) - log sigmoid(-beta s_j) | BCO, arXiv 2404.04656, without its shift |
 * | `sppo_hard` | (s_c - h)^2 + (s_j + h)^2 | SPPO, arXiv 2405.00675; sums, so it grows with length |
 * | `apo_zero` | 1 - sigmoid(beta s_c) + sigmoid(beta s_j) | APO, arXiv 2408.06266 |
 * | `apo_down` | sigmoid(beta s_c) + 1 - sigmoid(z) | the same |
 * | `discopop` | -log sigmoid(z) (1 - sigmoid(z/tau)) + exp(-z) sigmoid(z/tau) | DiscoPOP, arXiv 2406.08414 |
 * | `aot` | as `sigmoid`, of sorted S(l)_c - S(l)_j less sorted S(f)_c - S(f)_j | AOT, arXiv 2406.05882; sorted over the batch |
 * | `aot_unpaired` | as `sigmoid`, of sorted s_c less sorted s_j | the same |
 */
export type PairLoss = keyof typeof PAIR_LOSSES;

/** `1 / (2 beta)`: the margin that the squared losses aim at. */
const target = (beta: Tensor<"batch">) => beta.mul(2).pow(-1);
/** Values of all pairs of the batch in ascending order; equal ones in the order of the pairs. */
const sorted = (x: Pairs) => x.sort("batch");
const z = ({ score, beta }: PairParts) => marginOf(score).mul(beta);

export const PAIR_LOSSES = {
  sigmoid: (pair) => smoothedLogistic(z(pair), pair.smoothing),
  sigmoid_norm: ({ scorePerToken, beta }) => logistic(marginOf(scorePerToken).mul(beta)),
  robust: (pair) => {
    const { smoothing: e } = pair;
    const right = logistic(z(pair)).mul(1 - e);
    return right.sub(logistic(z(pair).neg()).mul(e)).div(1 - 2 * e);
  },
  hinge: (pair) => z(pair).neg().add(1).relu(),
  ipo: ({ scorePerToken, beta }) => marginOf(scorePerToken).sub(target(beta)).square(),
  ipo_sum: ({ score, beta }) => marginOf(score).sub(target(beta)).square(),
  exo_pair: (pair) => {
    const part = (x: Pairs, label: number) => x.sigmoid().mul(x.logSigmoid().sub(Math.log(label)));
    return part(z(pair), 1 - pair.smoothing).add(part(z(pair).neg(), pair.smoothing));
  },
  nca_pair: ({ score, beta }) => {
    const [chosen, rejected] = [chosenOf(score).mul(beta), rejectedOf(score).mul(beta)];
    return logistic(chosen).add(logistic(chosen.neg()).add(logistic(rejected.neg())).mul(0.5));
  },
  bco_pair: ({ score, beta }) =>
    logistic(chosenOf(score).mul(beta)).add(logistic(rejectedOf(score).mul(beta).neg())),
  sppo_hard: ({ score, beta }) =>
    chosenOf(score)
      .sub(target(beta))
      .square()
      .add(rejectedOf(score).add(target(beta)).square()),
  // 1 - sigmoid(x) is sigmoid(-x), which keeps its digits in the tail.
  apo_zero: ({ score, beta }) =>
    chosenOf(score).mul(beta).neg().sigmoid().add(rejectedOf(score).mul(beta).sigmoid()),
  apo_down: (pair) => chosenOf(pair.score).mul(pair.beta).sigmoid().add(z(pair).neg().sigmoid()),
  discopop: (pair) => {
    const [x, gate] = [z(pair), z(pair).div(pair.tau)];
    // One exponential: exp(-z) alone overflows where the sigmoid has long vanished.
    return logistic(x).mul(gate.neg().sigmoid()).add(gate.logSigmoid().sub(x).exp());
  },
  aot: ({ policy, reference, beta, smoothing }) => {
    const gap = sorted(marginOf(policy)).sub(sorted(marginOf(reference)));
    return smoothedLogistic(gap.mul(beta), smoothing);
  },
  aot_unpaired: ({ score, beta, smoothing }) => {
    const gap = sorted(chosenOf(score)).sub(sorted(rejectedOf(score)));
    return smoothedLogistic(gap.mul(beta), smoothing);
  },
} satisfies Record<string, (pair: PairParts) => Pairs>;

/** The types that label smoothing takes part in. */
export const SMOOTHED: readonly PairLoss[] = ["sigmoid", "robust", "exo_pair", "aot", "aot_unpaired"];
/** The types that only look at the margin of two scores, so that any divergence may make the scores. */
export const DIVERGING: readonly PairLoss[] =
  "sigmoid sigmoid_norm robust hinge ipo ipo_sum exo_pair discopop".split(" ") as PairLoss[];
