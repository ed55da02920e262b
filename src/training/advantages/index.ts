// Advantages, from rewards: numbers for the losses' input `advantages`. No gradient goes through them.
export type { Groups } from "./arguments.ts";
export {
  type GroupNormOptions,
  groupNormAdvantages,
  type OpoOptions,
  opoAdvantages,
  type PassAtKOptions,
  passAtKAdvantages,
  type RlooAdvantageOptions,
  rlooAdvantages,
} from "./groups.ts";
export {
  type DiscountOptions,
  discountedReturns,
  type GaeOptions,
  gaeAdvantages,
  type KlCenteredOptions,
  klCenteredAdvantages,
  reinforcePlusPlusAdvantages,
} from "./tokens.ts";
