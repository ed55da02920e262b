// The goals of the benchmark, beside what was reached.
import { firstStep, RATIOS, type Row } from "./rows.ts";
import { growth, type Scaled } from "./scaling.ts";
import { figure, table } from "./table.ts";

interface Goal {
  readonly what: string;
  readonly bound: number;
  /** Whether more is better. */
  readonly more: boolean;
  readonly reached: readonly { readonly where: string; readonly value: number }[];
}

/** The workloads that are large enough for ratios to be goals: on smaller ones fixed costs count. */
const LARGE: readonly string[] = ["256x2048", "512x8192"];

function reachedBy(rows: readonly Row[], value: (row: Row) => number | undefined): Goal["reached"] {
  return rows.flatMap((row) => {
    const reached = value(row);
    return reached === undefined ? [] : [{ where: `${row.loss} at ${row.workload}`, value: reached }];
  });
}

function goalsOf(rows: readonly Row[], scaled: readonly Scaled[]): Goal[] {
  const large = rows.filter(({ workload }) => LARGE.includes(workload));
  const ratio = (name: keyof typeof RATIOS, bound: number, more: boolean): Goal => ({
    what: name,
    bound,
    more,
    reached: reachedBy(large, RATIOS[name]),
  });
  return [
    ratio("packed / fused", 10, true),
    ratio("compiled / fused", 2, true),
    ratio("fused / hand-written", 2.5, false),
    ratio("torch / packed", 1.1, false),
    { what: "first step of a loss, ms", bound: 50, more: false, reached: reachedBy(rows, firstStep) },
    {
      what: "time of 4 times the tokens",
      bound: 4.2,
      more: false,
      reached: growth(scaled).map(({ tokens, ratio }) => ({
        where: `${tokens.toLocaleString("en")} tokens`,
        value: ratio,
      })),
    },
  ];
}

/** Each goal with the worst and the best that was reached; goals of which nothing was measured are left out. */
export const goalTable = (rows: readonly Row[], scaled: readonly Scaled[]): string =>
  table(
    ["goal", "asked for", "worst", "best", "met by"],
    goalsOf(rows, scaled)
      .filter(({ reached }) => reached.length > 0)
      .map(({ what, bound, more, reached }) => {
        const sorted = [...reached].sort((a, b) => (more ? a.value - b.value : b.value - a.value));
        const [worst, best] = [sorted[0]!, sorted.at(-1)!];
        const met = reached.filter(({ value }) => (more ? value >= bound : value <= bound)).length;
        return [
          what,
          `${more ? "at least" : "at most"} ${bound}`,
          `${figure(worst.value)} (${worst.where})`,
          `${figure(best.value)} (${best.where})`,
          `${met} of ${reached.length}`,
        ];
      }),
  );
