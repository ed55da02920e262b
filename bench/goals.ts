// The goals of a benchmark, beside what was reached.
import { figure, table } from "./table.ts";

export interface Reached {
  /** On what, as in `grpo at 256x2048`. */
  readonly where: string;
  readonly value: number;
}

export interface Goal {
  readonly what: string;
  readonly bound: number;
  /** Whether more is better. */
  readonly more: boolean;
  readonly reached: readonly Reached[];
}

/** The workloads that are large enough for ratios to be goals: on smaller ones fixed costs count. */
export const LARGE: readonly string[] = ["256x2048", "512x8192"];

/** The values that were measured of some rows. */
export const reachedBy = <Row>(
  rows: readonly Row[],
  where: (row: Row) => string,
  value: (row: Row) => number | undefined,
): Reached[] =>
  rows.flatMap((row) => {
    const reached = value(row);
    return reached === undefined ? [] : [{ where: where(row), value: reached }];
  });

/** Each goal with the worst and the best that was reached; goals of which nothing was measured are left out. */
export const goalTable = (goals: readonly Goal[]): string =>
  table(
    ["goal", "asked for", "worst", "best", "met by"],
    goals
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
