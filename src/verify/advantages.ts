// The estimator of each identifier of the advantage cases, with the options that a case's parameters come to.
import type { Row } from "../rows/rows.ts";
import {
  discountedReturns,
  gaeAdvantages,
  groupNormAdvantages,
  klCenteredAdvantages,
  opoAdvantages,
  passAtKAdvantages,
  reinforcePlusPlusAdvantages,
  rlooAdvantages,
} from "../training/advantages/index.ts";
import { type AdvantageCase, CaseError } from "./cases.ts";
import { present } from "./options.ts";

/** Sizes of the groups, from the group of each sample; a group's samples are neighbours. */
function sizesOf({ inputs }: AdvantageCase): number[] {
  const sizes: number[] = [];
  const { groups = [] } = inputs;
  groups.forEach((group, i) => {
    if (i > 0 && group === groups[i - 1]) sizes[sizes.length - 1]!++;
    else if (groups.indexOf(group) < i)
      throw new CaseError(`inputs.groups: expected the samples of group ${group} to be neighbours`);
    else sizes.push(1);
  });
  return sizes;
}

const total = (row: Row) => Array.from(row).reduce((sum, x) => sum + x, 0);

/** By identifier: one number per sample, or rows of numbers per token. */
export const ADVANTAGES: Readonly<Record<string, (golden: AdvantageCase) => Row | Row[]>> = {
  adv_group_norm: (golden) => {
    const { scale, eps, singleton, correction } = golden.params;
    const groups = sizesOf(golden);
    return groupNormAdvantages(golden.inputs.rewards!, {
      groups,
      ...present({ scale, eps, singleton, correction }),
    });
  },
  adv_rloo: (golden) => {
    const { normalize } = golden.params;
    return rlooAdvantages(golden.inputs.rewards!, { groups: sizesOf(golden), ...present({ normalize }) });
  },
  adv_opo: (golden) => {
    const lengths = golden.inputs.mask!.map(total);
    return opoAdvantages(golden.inputs.rewards!, { groups: sizesOf(golden), lengths });
  },
  adv_passk: (golden) => {
    const { normalize, eps } = golden.params;
    const groups = sizesOf(golden);
    return passAtKAdvantages(golden.inputs.rewards!, { groups, ...present({ normalize, eps }) });
  },
  adv_gae: ({ inputs: { token_rewards, values, mask }, params: { gamma, lam: lambda, whiten } }) =>
    gaeAdvantages(token_rewards!, { values: values!, ...present({ mask, gamma, lambda, whiten }) }),
  adv_discounted: ({ inputs: { token_rewards, mask }, params: { gamma } }) =>
    discountedReturns(token_rewards!, present({ gamma, mask })),
  adv_reinforce_pp: ({ inputs: { token_rewards, mask }, params: { gamma } }) =>
    reinforcePlusPlusAdvantages(token_rewards!, present({ gamma, mask })),
  adv_kl_centered: ({ inputs, params: { coef, gamma } }) =>
    klCenteredAdvantages(inputs.old_logp!, {
      advantages: inputs.advantages!,
      reference: inputs.ref_logp!,
      ...present({ coef, gamma, mask: inputs.mask }),
    }),
};
