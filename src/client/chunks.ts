// Which samples go out together where a batch is too large for one request.

import { describe, InputError } from "../errors.ts";

export interface ChunkLimits {
  /** Samples of one request. */
  readonly maxSamples: number;
  /** Size of one request's body where it cannot be uploaded. @unit bytes */
  readonly maxBytes: number;
}

/** Samples from `from` to before `to`. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

/**
 * Cuts a range into the fewest runs within the limits, in order; a sample that is too large by itself goes alone.
 * `bytesOf` gives the size of a body with these samples.
 */
export function planChunks(
  { from, to }: Range,
  { maxSamples, maxBytes }: ChunkLimits,
  bytesOf: (range: Range) => number,
): Range[] {
  // Most batches are one run, however many samples they have.
  if (to - from <= maxSamples && bytesOf({ from, to }) <= maxBytes) return [{ from, to }];
  const chunks: Range[] = [];
  for (let start = from; start < to; ) {
    let end = start + 1;
    while (end < to && end - start < maxSamples && bytesOf({ from: start, to: end + 1 }) <= maxBytes) end++;
    chunks.push({ from: start, to: end });
    start = end;
  }
  return chunks;
}

/** Two halves, or undefined for a single sample. */
export function halves({ from, to }: Range): [Range, Range] | undefined {
  const middle = Math.ceil((from + to) / 2);
  return middle < to
    ? [
        { from, to: middle },
        { from: middle, to },
      ]
    : undefined;
}

export function checkLimits(limits: ChunkLimits): ChunkLimits {
  for (const [name, value] of Object.entries(limits) as [keyof ChunkLimits, number][]) {
    if (value === Infinity || (Number.isSafeInteger(value) && value > 0)) continue;
    const option = name === "maxSamples" ? "maxChunkSamples" : "maxChunkBytes";
    throw new InputError(option, `expected an integer above 0 or Infinity, got ${describe(value)}`);
  }
  return limits;
}
