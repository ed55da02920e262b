// What the tests of the wire share: layouts, and whole texts.

import type { Runs, TextRow } from "../../src/wire/columns.ts";
import type { ResultLayout } from "../../src/wire/result.ts";
import { TextBuilder, type WrittenText } from "../../src/wire/text.ts";

/** The whole text of a body. */
export const joined = ({ chunks }: WrittenText): string => Buffer.concat(chunks).toString();

/** The bytes from one place to another of a body, as views of its chunks. */
export function viewsOf({ chunks }: WrittenText, from: number, to: number): Buffer[] {
  let start = 0;
  return chunks.flatMap((chunk) => {
    const part = chunk.subarray(Math.max(0, from - start), Math.max(0, to - start));
    start += chunk.length;
    return part.length > 0 ? [part] : [];
  });
}

/** The layout of rows whose weights are given: trained where they are not 0. */
export function layoutOf(weights: readonly (readonly number[])[]): ResultLayout {
  const runs: number[] = [];
  const runCounts = weights.map((row) => {
    let count = 0;
    row.forEach((weight, i) => {
      if (weight === 0) return;
      if (i > 0 && row[i - 1] !== 0) runs.push(runs.pop()! + 1);
      else runs.push(i, 1);
      if (i === 0 || row[i - 1] === 0) count++;
    });
    return count;
  });
  return {
    rowLengths: Uint32Array.from(weights, (row) => row.length),
    runCounts: Uint32Array.from(runCounts),
    runs: Uint32Array.from(runs),
  };
}

/** A text in parts of `size` bytes. */
export function* inParts(text: string | Buffer, size: number): Generator<Buffer> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/** Runs of a row alone: first position and length of each. */
export function runsOf(...positions: readonly number[]): Runs {
  return { of: Uint32Array.from(positions), first: 0, count: positions.length / 2 };
}

/** Where a row stands, for all of them. */
export const at = { path: "samples[2].row", sample: 2 };

/** The text of a JSON array of rows. */
export async function write(
  rows: readonly Omit<TextRow, "path" | "sample">[],
  signal?: AbortSignal,
): Promise<WrittenText> {
  const text = new TextBuilder(signal);
  for (const [index, row] of rows.entries()) {
    text.text(index === 0 ? "[" : ",");
    text.row({ ...row, ...at });
    await text.settled();
  }
  text.text("]");
  return text.write();
}
