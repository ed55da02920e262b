// Policy gradients whose weight is a matter of the whole sequence.
import { defineLoss, perSample, perToken } from "../loss/define.ts";
import type { Tensor } from "../loss/tensor.ts";
import { checkNames } from "../names.ts";
import { checkNumber } from "./options.ts";
import { type AdvantageAxis, advantagesOver } from "./policy.ts";
import {
  type ClipOptions,
  checkClip,
  clipMetrics,
  clippedSurrogate,
  policyMetrics,
  ratioMetrics,
} from "./ratio.ts";
import { checkReduction, type Reduction, sampleMean, sampleSum } from "./reductions.ts";

type Samples = Tensor<"sample">;
/** Numbers per sample, for what is elementwise or goes to the batch. */
const asTokens = (x: Samples) => x as Tensor<"sample" | "token"> as Tensor<"token">;

/** What is watched where one ratio, clipped, stands for a sample. */
const sequenceMetrics = (
  logprobs: Tensor<"token">,
  old: Tensor<"token">,
  ratio: Samples,
  advantages: Samples,
  clip: Required<ClipOptions>,
) => ({
  ...ratioMetrics(logprobs, old, asTokens(ratio)),
  ...policyMetrics(logprobs, asTokens(advantages)),
  ...clipMetrics(asTokens(ratio), asTokens(advantages), clip),
});

/**
 * REINFORCE leave-one-out with a clipped ratio (arXiv 2402.14740, as in TRL): `-min(R A, clip(R) A)` per sample, with
 * `R = exp(S(l - o))`, the ratio of whole completions, clipped to 0.8 and 1.2 by default; a mean over samples. Of all
 * ratios the one that overflows soonest; it is float64. The input `advantages` holds rewards less the mean of the others
 * of their group, one per sample, and `old` the log-probabilities of the policy that sampled.
 *
 * Metrics as of `ppo`, of the ratios of samples.
 */
export function rloo(options: ClipOptions = {}) {
  checkNames("rloo", options, ["clipLow", "clipHigh"]);
  const { clipLow = 0.8, clipHigh = 1.2 } = options;
  const clip = { clipLow, clipHigh };
  checkClip("rloo", clip);
  return defineLoss({
    name: "rloo",
    inputs: { old: perToken(), advantages: perSample() },
    loss: ({ logprobs, weights, old, advantages }) => {
      const ratio = sampleSum(logprobs.sub(old), weights).exp();
      return {
        loss: clippedSurrogate(asTokens(ratio), asTokens(advantages), clip).mean(),
        metrics: sequenceMetrics(logprobs, old, ratio, advantages, clip),
      };
    },
  });
}

/**
 * Geometric-mean policy optimisation (arXiv 2507.20673): `-A exp(mean h)` per sample, a mean over samples, where `h` is the
 * token's log-ratio clipped in the direction of the advantage alone: from above where `A > 0`, from below elsewhere. Bounds
 * of the ratio `exp(-0.4)` and `exp(0.4)` by default. An empty sample adds the constant `-A`, as in TRL; in verl nothing.
 * The inputs: `old` per token, `advantages` per sample.
 *
 * Metrics as of `ppo`, where the ratios are those of samples, and the clipped shares are of tokens.
 */
export function gmpo(options: ClipOptions = {}) {
  checkNames("gmpo", options, ["clipLow", "clipHigh"]);
  const { clipLow = Math.exp(-0.4), clipHigh = Math.exp(0.4) } = options;
  checkClip("gmpo", { clipLow, clipHigh });
  return defineLoss({
    name: "gmpo",
    inputs: { old: perToken(), advantages: perSample() },
    loss: ({ logprobs, weights, old, advantages }) => {
      const logRatio = logprobs.sub(old);
      const clipped = advantages
        .gt(0)
        .where(logRatio.clamp(undefined, Math.log(clipHigh)), logRatio.clamp(Math.log(clipLow)));
      const ratio = sampleMean(clipped, weights).exp();
      return {
        loss: ratio.mul(advantages).neg().mean(),
        metrics: {
          ...ratioMetrics(logprobs, old, asTokens(ratio)),
          ...policyMetrics(logprobs, asTokens(advantages)),
          ...clipMetrics(logRatio.exp(), asTokens(advantages), { clipLow, clipHigh }),
        },
      };
    },
  });
}

export interface VespoOptions {
  /** Exponent of the weight where `A >= 0`, above 0. Default 2. */
  readonly kPositive?: number;
  /** Decay of the weight where `A >= 0`, above 0. Default 3. */
  readonly lambdaPositive?: number;
  /** Exponent of the weight where `A < 0`, above 0. Default 3. */
  readonly kNegative?: number;
  /** Decay of the weight where `A < 0`, above 0. Default 2. */
  readonly lambdaNegative?: number;
  /** Whether the input `advantages` holds one number per sample or one per trained token. Default `sample`. */
  readonly advantages?: AdvantageAxis;
  /** Default `token_mean`. */
  readonly reduction?: Reduction;
}

/**
 * Variational sequence-level soft policy optimisation (arXiv 2602.10693, as in TRL and verl): `-sg(phi) A l` per token with
 * `phi = w^k exp(lambda (1 - w))`, where `w` is the ratio of the whole completion: `log w` is the sum of the log-ratios,
 * each held within 20 nats, itself held between log 1e-8 and 20. The weight is a constant and 1 where the ratio is 1.
 *
 * Inputs: `old` per token, `advantages`. Metrics as of `importanceSampling`, of the ratio `w`, and `weightMean`, the mean of
 * `phi` over tokens.
 */
export function vespo(options: VespoOptions = {}) {
  const names = ["kPositive", "lambdaPositive", "kNegative", "lambdaNegative"] as const;
  checkNames("vespo", options, [...names, "advantages", "reduction"]);
  const { kPositive = 2, lambdaPositive = 3, kNegative = 3, lambdaNegative = 2 } = options;
  const numbers = { kPositive, lambdaPositive, kNegative, lambdaNegative };
  for (const name of names) checkNumber(`vespo.${name}`, numbers[name], { above: 0 });
  const axis = advantagesOver("vespo", options.advantages);
  const { params, reduce } = checkReduction("vespo.reduction", options.reduction ?? "token_mean");
  return defineLoss({
    name: "vespo",
    inputs: { old: perToken(), advantages: axis },
    params,
    loss: ({ logprobs, weights, old, advantages: given, ...args }) => {
      const advantages = given as Tensor<"token">;
      const logWeight = sampleSum(logprobs.sub(old).clamp(-20, 20), weights).clamp(Math.log(1e-8), 20);
      const w = logWeight.exp();
      const phi = (k: number, lambda: number) => logWeight.mul(k).add(w.neg().add(1).mul(lambda)).exp();
      const weight = advantages
        .ge(0)
        .where(phi(kPositive, lambdaPositive), phi(kNegative, lambdaNegative))
        .detach();
      return {
        loss: reduce(weight.mul(advantages).mul(logprobs).neg(), weights, args),
        metrics: {
          ...ratioMetrics(logprobs, old, asTokens(w)),
          ...policyMetrics(logprobs, advantages),
          weightMean: weights.gt(0).where(weight, 0).mean(),
        },
      };
    },
  });
}
