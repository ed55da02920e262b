// All ready losses, and the pieces that losses of one's own may share with them.
export { type GroupAdvantagesOptions, groupAdvantages } from "./advantages.ts";
export { type CombinedLoss, combine } from "./combine.ts";
export { type KlCovOptions, klCov } from "./covariance.ts";
export { type IwOpdOptions, iwOpd, type OpdOptions, opd } from "./distillation.ts";
export {
  bnpo,
  dapo,
  drGrpo,
  type GrpoOptions,
  grpo,
  gspo,
  gspoToken,
  luspo,
} from "./group-relative.ts";
export { type KlEstimator, type KlOptions, klEstimate } from "./kl.ts";
export { type EntropyProxyOptions, entropyProxy, type KlPenaltyOptions, klPenalty } from "./penalties.ts";
export type { AdvantageAxis, PolicyLoss, PolicyOptions } from "./policy.ts";
export {
  cispo,
  type DroOptions,
  dro,
  importanceSampling,
  type PpoOptions,
  ppo,
  type ReinforceOptions,
  reinforce,
} from "./policy-gradient.ts";
export { type DpoOptions, dpo, type XpoOptions, xpo } from "./preference.ts";
export type { PairLoss } from "./preference-types.ts";
export type { ClipOptions, LogRatioOptions, RatioLevel } from "./ratio.ts";
export { type Reduction, sampleMean, sampleSum } from "./reductions.ts";
export {
  type CpoOptions,
  cpo,
  orpo,
  type SimpoOptions,
  simpo,
  type TpoOptions,
  tpo,
} from "./reference-free.ts";
export { a2po, nashMd } from "./regression.ts";
export type { RolloutCorrection } from "./rollout-correction.ts";
export { gmpo, rloo, type VespoOptions, vespo } from "./sequence-policy.ts";
export {
  crossEntropy,
  dft,
  type ReductionOptions,
  type RegularizedSftOptions,
  regularizedSft,
  unlikelihood,
} from "./supervised.ts";
export { type DppoOptions, dppo, type SapoOptions, sapo } from "./trust-region.ts";
export { bco, type KtoOptions, kto } from "./unpaired.ts";
