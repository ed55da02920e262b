// The goals of the wire.
import { type Goal, LARGE, reachedBy } from "../goals.ts";
import { growthGoal, type Sized } from "../scaling.ts";
import { ORJSON, STAGES, type StageName } from "./contestants.ts";
import type { Row } from "./measure.ts";
import { cpuPerValue, ratio } from "./tables.ts";

export function wireGoals(rows: readonly Row[], scaled: ReadonlyMap<StageName, readonly Sized[]>): Goal[] {
  const large = (stage: StageName) =>
    rows.filter((row) => row.stage === stage && LARGE.includes(row.workload));
  const atWorkload = ({ workload }: Row) => workload;
  const speed = (stage: StageName, bound: number): Goal => ({
    what: `${STAGES[stage]}, CPU, ns a value`,
    bound,
    more: false,
    reached: reachedBy(large(stage), atWorkload, cpuPerValue),
  });
  return [
    speed("float32", 20),
    speed("bfloat16", 2.5),
    speed("logprobs", 16),
    {
      what: `${STAGES.logprobs}, orjson and numpy / ours`,
      bound: 3,
      more: true,
      reached: reachedBy(large("logprobs"), atWorkload, (row) => ratio(row, ORJSON)),
    },
    ...[...scaled].map(([stage, sizes]) => growthGoal(`${STAGES[stage]}, time of 4 times the tokens`, sizes)),
    {
      what: "event loop held, ms",
      bound: 1,
      more: false,
      reached: reachedBy(
        rows,
        ({ stage, workload }) => `${STAGES[stage]} at ${workload}`,
        ({ hold }) => hold.own,
      ),
    },
  ];
}
