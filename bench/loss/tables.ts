// The tables of losses and gradients.
import { growth } from "../scaling.ts";
import { count, figure, spread, table } from "../table.ts";
import { COMPILED, FUSED, HANDWRITTEN, LIST, PACKED, TORCH } from "./contestants.ts";
import { firstStep, median, RATIOS, type Row } from "./rows.ts";
import type { Scaled } from "./scaling.ts";

const keysOf = ({ loss, workload }: Row) => [loss, workload];

/** The columns of the main table. */
const TIMES: Readonly<Record<string, readonly string[]>> = {
  [FUSED]: [FUSED],
  [TORCH]: [TORCH],
  [LIST]: [LIST],
  "eager, packed": PACKED,
  compiled: COMPILED,
  [HANDWRITTEN]: [HANDWRITTEN],
};

/** Medians in milliseconds, of the two packed styles the faster, and their ratios. */
export const mainTable = (rows: readonly Row[]): string =>
  table(
    ["loss", "workload", ...Object.keys(TIMES), "fused, ns a token", ...Object.keys(RATIOS)],
    rows.map((row) => {
      const fused = median(row, FUSED);
      return [
        ...keysOf(row),
        ...Object.values(TIMES).map((titles) => figure(median(row, ...titles))),
        figure(fused && (fused * 1e6) / row.trainedTokens),
        ...Object.values(RATIOS).map((ratio) => figure(ratio(row))),
      ];
    }),
  );

/** Everyone's median and spread in milliseconds. */
export function spreadTable(rows: readonly Row[]): string {
  const titles = [FUSED, TORCH, LIST, ...PACKED, ...COMPILED, HANDWRITTEN];
  return table(
    ["loss", "workload", ...titles],
    rows.map((row) => [...keysOf(row), ...titles.map((title) => spread(row.times.get(title)))]),
  );
}

/** What the first step of each loss took in milliseconds. */
export const firstTable = (rows: readonly Row[]): string =>
  table(
    ["loss", "workload", "trace", "first run", "both", ...COMPILED],
    rows.map((row) => {
      const ofCompiled = COMPILED.map((title) => row.first.get(title));
      return [
        ...keysOf(row),
        ...[row.trace, row.first.get(FUSED), firstStep(row), ...ofCompiled].map(figure),
      ];
    }),
  );

/** Fused GRPO by the size of the batch. */
export function scalingTable(scaled: readonly Scaled[]): string {
  const ratios = new Map(growth(scaled).map(({ tokens, ratio }) => [tokens, ratio]));
  return table(
    ["tokens", "trained", "ms", "ns a trained token", "times a quarter's time"],
    scaled.map(({ tokens, trainedTokens, time }) => [
      count(tokens),
      count(trainedTokens),
      spread(time),
      figure((time.median * 1e6) / trainedTokens),
      figure(ratios.get(tokens)),
    ]),
  );
}
