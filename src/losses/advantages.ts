// Advantages from rewards: how much better a sample did than the others of its group.
import type { Tensor } from "../loss/tensor.ts";
import { checkNames } from "../names.ts";
import { checkNumber } from "./options.ts";

export interface GroupAdvantagesOptions {
  /** Whether the distance from the group's mean is divided by the group's standard deviation. Default true. */
  readonly normalize?: boolean;
  /**
   * Which standard deviation: 0, the default, that of the group as it is (of the rewards 1, 0, 0, 1 it is 0.5), or 1, that
   * estimated from it as a sample (0.5774), as TRL and verl divide by.
   */
  readonly correction?: 0 | 1;
  /** Added to the standard deviation; at least 0. Default 1e-4. */
  readonly epsilon?: number;
}

/**
 * `(r - mean) / (std + epsilon)` over the samples of each group, from one reward per sample. In a group of one, or where
 * all rewards are equal, it is 0: such groups teach nothing, and `rewards.max("group").eq(rewards.min("group")).count()`
 * tells as a metric how many there are.
 */
export function groupAdvantages(
  rewards: Tensor<"sample">,
  options: GroupAdvantagesOptions = {},
): Tensor<"sample"> {
  checkNames("groupAdvantages", options, ["normalize", "correction", "epsilon"]);
  const { normalize = true, correction = 0, epsilon = 1e-4 } = options;
  checkNumber("groupAdvantages.epsilon", epsilon, { min: 0 });
  // A mean of equal rewards may be off by its rounding, which a small epsilon would blow up.
  const varies = rewards.max("group").gt(rewards.min("group"));
  const distance = rewards.sub(rewards.mean("group"));
  const spread = rewards.std("group", { correction }).add(epsilon);
  return varies.where(normalize ? distance.div(spread) : distance, 0);
}
