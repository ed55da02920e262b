// Tables of figures, in Markdown.
import type { Hold } from "./hold.ts";
import type { Summary } from "./statistics.ts";

const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;

export const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");

/** A number with three digits that matter, or a dash for none. */
export function figure(value: number | undefined): string {
  if (value === undefined) return "-";
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;
  return value.toFixed(digits);
}

/** A hold of the event loop: the work's own, and in all. */
export const holdFigure = (hold: Hold | undefined) =>
  hold === undefined ? figure(undefined) : `${figure(hold.own)} (${figure(hold.whole)})`;

export const count = (tokens: number) => tokens.toLocaleString("en");
/** A median with its tenth and ninetieth percentile. */
export const spread = (summary: Summary | undefined) =>
  summary === undefined
    ? "-"
    : `${figure(summary.median)} (${figure(summary.p10)} to ${figure(summary.p90)})`;
