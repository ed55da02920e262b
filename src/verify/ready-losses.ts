// The ready loss of each identifier of the golden cases, with the options that a case's parameters come to.
import type { Loss } from "../loss/define.ts";
import { klCov } from "../losses/covariance.ts";
import { iwOpd, opd } from "../losses/distillation.ts";
import { bnpo, dapo, drGrpo, grpo, gspo, gspoToken, luspo } from "../losses/group-relative.ts";
import { entropyProxy, klPenalty } from "../losses/penalties.ts";
import { cispo, dro, importanceSampling, ppo, reinforce } from "../losses/policy-gradient.ts";
import { dpo, xpo } from "../losses/preference.ts";
import { cpo, orpo, simpo, tpo } from "../losses/reference-free.ts";
import { a2po, nashMd } from "../losses/regression.ts";
import { gmpo, rloo, vespo } from "../losses/sequence-policy.ts";
import { crossEntropy, dft, regularizedSft, unlikelihood } from "../losses/supervised.ts";
import { dppo, sapo } from "../losses/trust-region.ts";
import { bco, kto } from "../losses/unpaired.ts";
import type { LossCase } from "./cases.ts";
import { type Options, present } from "./options.ts";

function reductionOf({ reduction, horizon, normalizer }: LossCase["params"]): unknown {
  if (horizon !== undefined) return { type: reduction, horizon };
  return normalizer === undefined ? reduction : { type: reduction, normalizer };
}

/** Options of losses with a ratio. */
function ratioOptions(golden: LossCase, axis: "sample" | "token" | undefined): Options {
  const { params } = golden;
  const coef = params.beta ?? params.kl_coef;
  const kl = present({ coef, estimator: params.kl_estimator, timesRatio: params.bias_correction_kl });
  return present({
    advantages: axis,
    reduction: reductionOf(params),
    logRatioClamp: params.log_ratio_clamp ?? params.log_ratio_max,
    clampGradient: params.clamp_gradient,
    correction: params.tis,
    gradientBand: params.icepop_beta,
    kl: golden.loss !== "dro" && coef !== undefined ? kl : undefined,
  });
}

/** Clip bounds around 1, as ratios. */
const around1 = ({ epsilon_low, epsilon_high }: LossCase["params"]) => ({
  clipLow: 1 - (epsilon_low as number),
  clipHigh: 1 + (epsilon_high as number),
});
const absolute = ({ clip_low, clip_high }: LossCase["params"]) => ({
  clipLow: clip_low,
  clipHigh: clip_high,
});

const groupRelative =
  (loss: (options: Options) => Loss) =>
  (golden: LossCase): Loss => {
    const { ratio_level: ratio, delta, off_policy_threshold: offPolicyThreshold } = golden.params;
    const own = present({ ...around1(golden.params), ratio, delta, offPolicyThreshold });
    return loss({ ...ratioOptions(golden, "sample"), ...own });
  };

/** A loss over advantages per token. */
const perTokenPolicy =
  (loss: (options: Options) => Loss, own: (params: LossCase["params"]) => object = () => ({})) =>
  (golden: LossCase): Loss =>
    loss({ ...ratioOptions(golden, "token"), ...present({ ...own(golden.params) }) });

const preference =
  (type: string) =>
  ({ params }: LossCase): Loss =>
    dpo(
      present({
        type,
        beta: params.beta,
        labelSmoothing: params.label_smoothing || undefined,
        divergence: params.f_divergence,
        alpha: params.f_alpha,
        nllWeight: params.nll_alpha,
        lengthWeight: params.ld_alpha,
        referenceFree: params.reference_free,
        tau: params.tau,
      }),
    );

function mixOf({ params }: LossCase): Loss {
  const weights = params.loss_weights as readonly number[];
  const all = Object.fromEntries(
    (params.loss_types as readonly string[]).map((type, i) => [type, weights[i]]),
  );
  const { sft, ...type } = all;
  return dpo(present({ beta: params.beta, type, nllWeight: sft }));
}

const comparison =
  (type: string) =>
  ({ params }: LossCase): Loss =>
    cpo(
      present({
        type,
        beta: params.beta,
        labelSmoothing: params.label_smoothing,
        nllWeight: params.cpo_alpha,
      }),
    );

const simpoOf = ({ params: p }: LossCase): Loss =>
  simpo(
    present({
      beta: p.beta,
      gamma: p.gamma,
      labelSmoothing: p.label_smoothing,
      nllWeight: p.cpo_alpha,
      alpha: p.alpha,
    }),
  );

const reduced =
  (loss: (options: Options) => Loss, own: (params: LossCase["params"]) => object = () => ({})) =>
  ({ params }: LossCase): Loss =>
    loss(present({ reduction: reductionOf(params), ...own(params) }));

/** By identifier. */
export const READY_LOSSES: Readonly<Record<string, (golden: LossCase) => Loss>> = {
  cross_entropy: reduced(crossEntropy),
  regularized_sft: reduced(regularizedSft, ({ beta }) => ({ beta })),
  dft: reduced(dft),
  unlikelihood: reduced(unlikelihood),
  kl_penalty: reduced(klPenalty, ({ coef, estimator }) => ({ coef, estimator })),
  entropy_proxy: reduced(entropyProxy, ({ coef, kind }) => ({ coef, kind })),

  dpo_sigmoid: preference("sigmoid"),
  dpo_cdpo: preference("sigmoid"),
  dpo_robust: preference("robust"),
  dpo_hinge: preference("hinge"),
  dpo_ipo: preference("ipo"),
  dpo_ipo_sum: preference("ipo_sum"),
  dpo_sigmoid_norm: preference("sigmoid_norm"),
  dpo_exo_pair: preference("exo_pair"),
  dpo_nca_pair: preference("nca_pair"),
  dpo_bco_pair: preference("bco_pair"),
  dpo_sppo_hard: preference("sppo_hard"),
  dpo_apo_zero: preference("apo_zero"),
  dpo_apo_down: preference("apo_down"),
  dpo_discopop: preference("discopop"),
  dpo_aot: preference("aot"),
  dpo_aot_unpaired: preference("aot_unpaired"),
  dpo_mix: mixOf,
  xpo: ({ params: { beta, alpha } }) => xpo(present({ beta, alpha })),

  simpo: simpoOf,
  alphapo: simpoOf,
  cpo_sigmoid: comparison("sigmoid"),
  cpo_hinge: comparison("hinge"),
  cpo_ipo: comparison("ipo"),
  orpo: ({ params: { beta } }) => orpo(present({ beta })),
  tpo: ({ params: { beta, length_norm, gamma, tpo_alpha } }) =>
    tpo(present({ beta, lengthNormalized: length_norm, gamma, nllWeight: tpo_alpha })),

  kto: ({ params }) =>
    kto(
      present({
        type: params.variant === "kto" ? "kto" : "apo_zero",
        beta: params.beta,
        desirableWeight: params.desirable_weight,
        undesirableWeight: params.undesirable_weight,
      }),
    ),
  bco: ({ params: { beta } }) => bco(present({ beta })),
  a2po: ({ params: { beta2 } }) => a2po(present({ beta: beta2 })),
  nash_md: ({ params: { beta } }) => nashMd(present({ beta })),

  reinforce: reduced(reinforce),
  importance_sampling: perTokenPolicy(importanceSampling),
  ppo: perTokenPolicy(ppo, (params) => ({ ...absolute(params), dualClip: params.dual_clip })),
  cispo: perTokenPolicy(cispo, absolute),
  dro: perTokenPolicy(dro, ({ beta }) => ({ beta })),
  dppo: perTokenPolicy(dppo, ({ divergence, delta_low, delta_high, ratio_cap }) => ({
    divergence,
    deltaLow: delta_low,
    deltaHigh: delta_high,
    ratioCap: ratio_cap,
  })),
  grpo: groupRelative(grpo),
  bnpo: groupRelative(bnpo),
  dr_grpo: groupRelative(drGrpo),
  dapo: groupRelative(dapo),
  luspo: groupRelative(luspo),
  gspo: groupRelative(gspo),
  gspo_token: groupRelative(gspoToken),
  sapo: (golden) => {
    const { tau_pos: tauPositive, tau_neg: tauNegative } = golden.params;
    return sapo({ ...ratioOptions(golden, "sample"), ...present({ tauPositive, tauNegative }) });
  },
  vespo: reduced(vespo, ({ k_pos, lambda_pos, k_neg, lambda_neg }) => ({
    kPositive: k_pos,
    lambdaPositive: lambda_pos,
    kNegative: k_neg,
    lambdaNegative: lambda_neg,
  })),
  gmpo: ({ params }) =>
    gmpo({
      clipLow: Math.exp(-(params.epsilon_low as number)),
      clipHigh: Math.exp(params.epsilon_high as number),
    }),
  rloo: ({ params }) => rloo(around1(params)),
  kl_cov: perTokenPolicy(klCov, ({ kl_cov_ratio, ppo_kl_coef }) => ({
    fraction: kl_cov_ratio,
    covCoef: ppo_kl_coef,
  })),

  iw_opd: reduced(iwOpd, ({ gamma }) => ({ gamma })),
  opd_importance: (golden) =>
    opd({ ...ratioOptions(golden, undefined), ...present({ coef: golden.params.coef }) }),
};
