// The goals of losses and gradients.
import { type Goal, LARGE, reachedBy } from "../goals.ts";
import { growthGoal } from "../scaling.ts";
import { firstStep, RATIOS, type Row } from "./rows.ts";
import type { Scaled } from "./scaling.ts";

const where = ({ loss, workload }: Row) => `${loss} at ${workload}`;

export function lossGoals(rows: readonly Row[], scaled: readonly Scaled[]): Goal[] {
  const large = rows.filter(({ workload }) => LARGE.includes(workload));
  const ratio = (name: keyof typeof RATIOS, bound: number, more: boolean): Goal => ({
    what: name,
    bound,
    more,
    reached: reachedBy(large, where, RATIOS[name]),
  });
  return [
    ratio("packed / fused", 10, true),
    ratio("compiled / fused", 2, true),
    ratio("fused / hand-written", 2.5, false),
    ratio("torch / packed", 1.1, false),
    { what: "first step of a loss, ms", bound: 50, more: false, reached: reachedBy(rows, where, firstStep) },
    growthGoal("time of 4 times the tokens", scaled),
  ];
}
