// Copies numbers that a caller brings: checked and packed to the trained tokens, a piece at a time.
import { blocks } from "../blocks.ts";
import { describe, InputError } from "../errors.ts";
import { type Pace, PIECE } from "../pace.ts";
import { isNumberList, notANumber, type Row } from "../rows/rows.ts";
import type { Precision } from "./binding.ts";
import type { Layout } from "./layout.ts";

export type Floats = Float32Array | Float64Array;

/** Memory that is not cleared: all of it is written. */
const newFloats = (precision: Precision, length: number): Floats =>
  precision === "float32"
    ? new Float32Array(blocks.take(4 * length), 0, length)
    : new Float64Array(blocks.take(8 * length), 0, length);

/** Below this many numbers a loop is faster than a view and a block copy. */
const SHORT = 16;

/**
 * Copies `size` numbers of `from`, beginning at `start`, to `to` at `offset`; `size` is at most a piece. `sample` is for
 * the message: an index of `from` then is a position of the sample's row.
 */
function copyPiece(
  path: string,
  sample: number | undefined,
  from: ArrayLike<number>,
  start: number,
  size: number,
  to: Floats,
  offset: number,
): void {
  if (size > SHORT && ArrayBuffer.isView(from)) {
    to.set((from as Float32Array).subarray(start, start + size), offset);
  } else {
    for (let i = 0; i < size; i++) {
      const value: unknown = from[start + i];
      if (typeof value !== "number") throw notANumber(path, sample, start + i, value);
      to[offset + i] = value;
    }
  }
  if (allFinite(to, offset, offset + size)) return;
  for (let i = 0; i < size; i++) {
    if (!Number.isFinite(to[offset + i])) throw notANumber(path, sample, start + i, from[start + i]);
  }
}

/** Whether all numbers from `begin` to `end` are finite. */
function allFinite(values: Floats, begin: number, end: number): boolean {
  // 0 times anything finite is 0, so that one NaN at the end stands for any value that is not. Four sums, since each waits
  // for its last addition.
  let [a, b, c, d] = [0, 0, 0, 0];
  let i = begin;
  for (; i + 3 < end; i += 4) {
    a += 0 * values[i]!;
    b += 0 * values[i + 1]!;
    c += 0 * values[i + 2]!;
    d += 0 * values[i + 3]!;
  }
  for (; i < end; i++) a += 0 * values[i]!;
  return a + b + c + d === 0;
}

/** Packs full rows to the trained tokens. What stands at untrained positions is not read. */
export async function packRows(
  path: string,
  rows: readonly Row[],
  layout: Layout,
  precision: Precision,
  pace: Pace,
): Promise<Floats> {
  const samples = layout.rowLengths.length;
  if (rows.length !== samples) {
    throw new InputError(path, `expected ${samples} rows, one per sample, got ${rows.length}`);
  }
  const packed = newFloats(precision, layout.tokens);
  let run = 0;
  let token = 0;
  for (let sample = 0; sample < samples; sample++) {
    const row = rows[sample];
    const length = layout.rowLengths[sample]!;
    if (!isNumberList(row) || row.length !== length) {
      throw new InputError(path, `expected a row of ${length} numbers, got ${describe(row)}`, { sample });
    }
    for (const lastRun = run + layout.runCounts[sample]!; run < lastRun; run++) {
      const end = layout.runs[2 * run]! + layout.runs[2 * run + 1]!;
      for (let start = layout.runs[2 * run]!; start < end; start += PIECE) {
        const size = Math.min(PIECE, end - start);
        copyPiece(path, sample, row, start, size, packed, token);
        token += size;
        if (pace.due(size)) await pace.rest();
      }
    }
  }
  return packed;
}

/** Copies a flat list of numbers. */
export async function copyFlat(
  path: string,
  values: ArrayLike<number>,
  precision: Precision,
  pace: Pace,
): Promise<Floats> {
  const copied = newFloats(precision, values.length);
  for (let start = 0; start < values.length; start += PIECE) {
    const size = Math.min(PIECE, values.length - start);
    copyPiece(path, undefined, values, start, size, copied, start);
    if (pace.due(size)) await pace.rest();
  }
  return copied;
}
