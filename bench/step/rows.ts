// The rows of the benchmark of steps, and the ratios that its goals speak of.
import type { CaseName } from "../cases.ts";
import type { WorkloadName } from "../workload.ts";
import { BEST, GUIDE, VENDOR } from "./contestants.ts";
import type { Measured } from "./measure.ts";

/** A loss on a workload, with what was measured by the contestants' titles. */
export interface Row {
  readonly loss: CaseName;
  readonly workload: WorkloadName;
  readonly measured: ReadonlyMap<string, Measured>;
}

/** A value of the best of some contestants, the one with the fastest step; undefined if none ran. */
function of({ measured }: Row, titles: readonly string[], value: (measured: Measured) => number) {
  const ran = titles.flatMap((title) => measured.get(title) ?? []);
  const [best] = ran.sort((a, b) => a.times.whole.median - b.times.whole.median);
  return best && value(best);
}

export const whole = ({ times }: Measured): number => times.whole.median;
export const peak = ({ memory }: Measured): number => memory.peak;
export const growth = ({ memory }: Measured): number => memory.peak - memory.before;
export const bytes = ({ bytesPerGradient }: Measured): number => bytesPerGradient;

/** The contestants that tokengrad is compared with, and how they are called in a table. */
export const PYTHON = { vendor: [VENDOR], guide: [GUIDE], best: BEST } as const;

/** What a value of the first is to that of the second; undefined unless both ran. */
export function ratio(
  row: Row,
  over: readonly string[],
  under: readonly string[],
  value: (measured: Measured) => number,
): number | undefined {
  const [above, below] = [of(row, over, value), of(row, under, value)];
  return above !== undefined && below !== undefined ? above / below : undefined;
}

/** Everything that ran, without repeats. */
export const versionsOf = (rows: readonly Row[]): string[] => [
  ...new Set(
    rows.flatMap(({ measured }) => [...measured.values()].flatMap(({ version }) => version.split(", "))),
  ),
];
