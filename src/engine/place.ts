// Where an element of an axis lies in a batch, as a caller knows it.
import type { Axis } from "../loss/graph.ts";
import type { Layout } from "./layout.ts";

/** Sample and position of a trained token, or the sample, or the group. */
export function placeOf(
  { runCounts, runs }: Layout,
  axis: Axis,
  element: number,
): { readonly sample?: number; readonly position?: number; readonly group?: number } {
  if (axis === "batch") return {};
  if (axis === "group") return { group: element };
  if (axis === "sample") return { sample: element };
  let run = 0;
  let token = 0;
  for (let sample = 0; sample < runCounts.length; sample++) {
    for (const end = run + runCounts[sample]!; run < end; run++) {
      const size = runs[2 * run + 1]!;
      if (element < token + size) return { sample, position: runs[2 * run]! + element - token };
      token += size;
    }
  }
  throw new RangeError(`expected a trained token below ${token}, got ${element}`);
}
