// What policy-gradient losses share: the ratio to the old policy, corrections of it, the penalty on the divergence, metrics.
import {
  defineLoss,
  type Loss,
  type LossInput,
  type LossParams,
  perSample,
  perToken,
} from "../loss/define.ts";
import type { Tensor } from "../loss/tensor.ts";
import { checkNames } from "../names.ts";
import { checkKl, type KlOptions, klEstimate } from "./kl.ts";
import { checkChoice, checkNumber } from "./options.ts";
import {
  checkLogRatio,
  held,
  LOG_RATIO_OPTIONS,
  type LogRatioOptions,
  levelled,
  policyMetrics,
  type RatioLevel,
  ratioMetrics,
} from "./ratio.ts";
import { checkReduction, type Reduction, type ReductionParams } from "./reductions.ts";
import { checkCorrection, correctionFactor, type RolloutCorrection } from "./rollout-correction.ts";

type Tokens = Tensor<"token">;
type MaybeKl = KlOptions | undefined;

/** Options of losses with a ratio; the advantages come from an input or are a matter of the loss. */
export interface RatioOptions<K extends MaybeKl = MaybeKl> extends LogRatioOptions {
  /** How values per token come to one for the batch. */
  readonly reduction?: Reduction;
  /**
   * Corrects for a sampler that is not quite the old policy; the input `rollout` holds the sampler's own log-probabilities.
   * The factor is a constant, on the policy's term only. Default: none.
   */
  readonly correction?: RolloutCorrection;
  /**
   * A factor above 1: outside of `1 / k <= r <= k` a token keeps its value and loses its gradient. As xorl's `icepop_beta`.
   * Default: none.
   */
  readonly gradientBand?: number;
  /** Adds a penalty on the divergence from a frozen reference, the input `reference`. Default: none. */
  readonly kl?: K;
}

export interface PolicyOptions<K extends MaybeKl = MaybeKl> extends RatioOptions<K> {
  /** Whether the input `advantages` holds one number per sample or one per trained token. Default `sample`. */
  readonly advantages?: AdvantageAxis;
}

const ADVANTAGE_AXES = ["sample", "token"] as const;
/** What advantages vary over. */
export type AdvantageAxis = (typeof ADVANTAGE_AXES)[number];

type MetricsOf<Compute extends (...args: never) => unknown> = keyof ReturnType<Compute> & string;
type PolicyMetric = MetricsOf<typeof ratioMetrics> | MetricsOf<typeof policyMetrics>;

/** The inputs of a policy loss; `reference` with `kl`, `rollout` with `correction`. */
export type PolicyInputs = {
  readonly old: LossInput<"token">;
  readonly advantages?: LossInput<AdvantageAxis>;
  readonly teacher?: LossInput<"token">;
  readonly reference?: LossInput<"token">;
  readonly rollout?: LossInput<"token">;
};

/** A policy loss: `M` are its own metrics beside those of all, `P` its own parameters. */
export type PolicyLoss<
  K extends MaybeKl = undefined,
  M extends string = never,
  P extends LossParams = Record<never, never>,
> = Loss<
  PolicyInputs,
  P & ReductionParams & { readonly klCoef?: number },
  PolicyMetric | M | (K extends KlOptions ? "kl" : never),
  "policy" | "kl"
>;

/** What the surrogate of a token is made of. A ratio of sequences varies over samples, and is used as if over tokens. */
export interface PolicyTerms {
  readonly logprobs: Tokens;
  readonly weights: Tokens;
  readonly old: Tokens;
  readonly advantages: Tokens;
  /** Held within its bound. */
  readonly logRatio: Tokens;
  readonly ratio: Tokens;
}

export interface PolicyDefinition<M extends string, P extends LossParams> {
  /** How the caller writes the loss, for messages. */
  readonly path: string;
  /** Names of the options that are the loss's own; it checks them itself. */
  readonly own?: readonly string[];
  readonly reduction: Reduction;
  readonly level?: RatioLevel;
  readonly params?: P;
  /** Loss per token. */
  readonly surrogate: (terms: PolicyTerms, params: { readonly [Name in keyof P]: Tensor<"batch"> }) => Tokens;
  readonly metrics?: (terms: PolicyTerms) => Readonly<Record<M, Tensor<"batch">>>;
}

/** Where the advantages come from. */
export interface AdvantageSource {
  readonly inputs: Pick<PolicyInputs, "advantages" | "teacher">;
  readonly compute: (given: Readonly<Record<string, Tokens>>) => Tokens;
}

const RATIO_OPTIONS = [...LOG_RATIO_OPTIONS, "reduction", "correction", "gradientBand", "kl"];

/** The input `advantages`, over the axis that was asked for. */
export function advantagesOver(path: string, axis: unknown = "sample"): LossInput<AdvantageAxis> {
  checkChoice(`${path}.advantages`, axis, ADVANTAGE_AXES);
  return axis === "sample" ? perSample() : perToken();
}

/** `drGrpo` is `dr_grpo` in messages and in print. */
const nameOf = (path: string) => path.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** A loss whose advantages come from elsewhere than an input of that name. */
export function ratioLoss<
  K extends MaybeKl,
  M extends string = never,
  P extends LossParams = Record<never, never>,
>(
  { path, own = [], surrogate, metrics, params, level = "token", ...defaults }: PolicyDefinition<M, P>,
  options: RatioOptions<K>,
  advantageSource: AdvantageSource,
): PolicyLoss<K, M, P> {
  checkNames(path, options, [...own, ...RATIO_OPTIONS]);
  const { reduction = defaults.reduction, correction, gradientBand } = options;
  checkLogRatio(path, options);
  const { reduce, params: reductionParams } = checkReduction(`${path}.reduction`, reduction);
  if (correction !== undefined) checkCorrection(`${path}.correction`, correction);
  if (gradientBand !== undefined) checkNumber(`${path}.gradientBand`, gradientBand, { above: 1 });
  const penalty = options.kl === undefined ? undefined : checkKl(`${path}.kl`, options.kl);

  const loss = defineLoss({
    name: nameOf(path),
    inputs: {
      old: perToken(),
      ...advantageSource.inputs,
      ...(penalty !== undefined && { reference: perToken() }),
      ...(correction !== undefined && { rollout: perToken() }),
    },
    params: { ...params, ...reductionParams, ...(penalty !== undefined && { klCoef: penalty.coef }) },
    loss: (given) => {
      const { logprobs, weights, old, reference, rollout, klCoef } = given;
      const advantages = advantageSource.compute(given as unknown as Record<string, Tokens>);
      const logRatio = held(levelled(logprobs.sub(old), weights, level), options);
      const ratio = logRatio.exp();
      const terms = { logprobs, weights, old, advantages, logRatio, ratio };

      let x = surrogate(terms, given as unknown as { readonly [Name in keyof P]: Tensor<"batch"> });
      if (gradientBand !== undefined) {
        x = ratio
          .ge(1 / gradientBand)
          .and(ratio.le(gradientBand))
          .where(x, x.detach());
      }
      if (correction !== undefined) x = correctionFactor(old, rollout!, weights, correction).scale(x);
      const policy = reduce(x, weights, given);
      const watched: Record<string, Tensor<"batch">> = {
        ...ratioMetrics(logprobs, old, ratio),
        ...policyMetrics(logprobs, advantages),
        ...metrics?.(terms),
      };
      if (penalty === undefined) return { loss: policy, metrics: watched };

      const estimate = klEstimate(logprobs, reference!, penalty.estimator);
      const divergence = reduce(penalty.timesRatio ? estimate.scale(ratio) : estimate, weights, given);
      const cost = divergence.mul(klCoef!);
      return {
        loss: policy.add(cost),
        metrics: { ...watched, kl: divergence },
        terms: { policy, kl: cost },
      };
    },
  });
  return loss as unknown as PolicyLoss<K, M, P>;
}

/** A loss with the input `advantages`. */
export function policyLoss<
  K extends MaybeKl,
  M extends string = never,
  P extends LossParams = Record<never, never>,
>(definition: PolicyDefinition<M, P>, options: PolicyOptions<K>): PolicyLoss<K, M, P> {
  const { advantages: axis, ...rest } = options;
  const inputs = { advantages: advantagesOver(definition.path, axis) };
  return ratioLoss(definition, rest as RatioOptions<K>, { inputs, compute: (given) => given.advantages! });
}
