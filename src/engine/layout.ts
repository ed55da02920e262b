// Where the trained tokens of a batch lie: in the rows of its samples, and in groups of samples.
import { describe, InputError } from "../errors.ts";
import type { Axis } from "../loss/graph.ts";
import type { RowLayout } from "../rows/layout.ts";
import { isNumberList } from "../rows/rows.ts";

export interface Layout extends RowLayout {
  /** Samples in each group. */
  readonly groupSizes: Uint32Array;
}

/** Elements of an axis. */
export const sizeOf = (layout: Layout, axis: Axis): number =>
  ({
    token: layout.tokens,
    sample: layout.rowLengths.length,
    group: layout.groupSizes.length,
    batch: 1,
  })[axis];

/** Samples in each group, from what a caller gave: one size for all, a list of sizes, or nothing for groups of one. */
export function readGroups(groups: number | ArrayLike<number> | undefined, samples: number): Uint32Array {
  if (groups === undefined) return new Uint32Array(samples).fill(1);
  if (typeof groups === "number") {
    if (!Number.isInteger(groups) || groups < 1 || samples % groups !== 0) {
      throw new InputError("groups", `expected a size that divides ${samples} samples, got ${groups}`);
    }
    return new Uint32Array(samples / groups).fill(groups);
  }
  if (!isNumberList(groups)) {
    throw new InputError("groups", `expected a size or a list of sizes, got ${describe(groups)}`);
  }
  let sum = 0;
  for (let i = 0; i < groups.length; i++) {
    const size = groups[i]!;
    if (!Number.isInteger(size) || size < 1) {
      throw new InputError(`groups[${i}]`, `expected a whole number of at least 1, got ${describe(size)}`);
    }
    sum += size;
  }
  if (sum !== samples) {
    throw new InputError("groups", `expected sizes that add up to ${samples} samples, got ${sum}`);
  }
  return Uint32Array.from(groups);
}
