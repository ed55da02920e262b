// Where an element of an axis lies in a batch, as a caller knows it.
import type { Axis } from "../loss/graph.ts";
import { runsOf } from "../rows/layout.ts";
import type { Layout } from "./layout.ts";

/** Sample and position of a trained token, or the sample, or the group. */
export function placeOf(
  layout: Layout,
  axis: Axis,
  element: number,
): { readonly sample?: number; readonly position?: number; readonly group?: number } {
  if (axis === "batch") return {};
  if (axis === "group") return { group: element };
  if (axis === "sample") return { sample: element };
  for (const { sample, start, size, token } of runsOf(layout)) {
    if (element < token + size) return { sample, position: start + element - token };
  }
  throw new RangeError(`expected a trained token, got ${element}`);
}
