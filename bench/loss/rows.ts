// The rows of the benchmark of losses, and the ratios that its goals speak of.
import type { CaseName } from "../cases.ts";
import type { WorkloadName } from "../workload.ts";
import { COMPILED, FUSED, HANDWRITTEN, LIST, PACKED, TORCH } from "./contestants.ts";
import type { Measured } from "./measure.ts";

/** A loss on a workload. */
export interface Row extends Measured {
  readonly loss: CaseName;
  readonly workload: WorkloadName;
  readonly trainedTokens: number;
  /** Milliseconds that tracing the loss took, where it was traced for this row. */
  readonly trace: number | undefined;
}

/** The median of the fastest of some contestants, in milliseconds; undefined if none ran. */
export function median({ times }: Measured, ...titles: readonly string[]): number | undefined {
  const medians = titles.flatMap((title) => times.get(title)?.median ?? []);
  return medians.length > 0 ? Math.min(...medians) : undefined;
}

const ratio = (row: Measured, over: readonly string[], under: readonly string[]) => {
  const [above, below] = [median(row, ...over), median(row, ...under)];
  return above !== undefined && below !== undefined ? above / below : undefined;
};

/** How many times as long the first takes as the second. */
export const RATIOS = {
  "list / fused": (row: Measured) => ratio(row, [LIST], [FUSED]),
  "packed / fused": (row: Measured) => ratio(row, PACKED, [FUSED]),
  "compiled / fused": (row: Measured) => ratio(row, COMPILED, [FUSED]),
  "fused / hand-written": (row: Measured) => ratio(row, [FUSED], [HANDWRITTEN]),
  "torch / packed": (row: Measured) => ratio(row, [TORCH], PACKED),
};

/** Tracing, compiling and the first run of a loss, in milliseconds. */
export const firstStep = ({ trace, first }: Row): number | undefined => {
  const run = first.get(FUSED);
  return trace !== undefined && run !== undefined ? trace + run : undefined;
};
