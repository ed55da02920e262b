// Log-probabilities above 0, which no probability has: counted, warned of, or held at 0.

import { type Pace, PIECE } from "../pace.ts";
import type { Layout } from "./layout.ts";
import type { Floats } from "./pack.ts";
import { placeOf } from "./place.ts";

let warned = false;

/** Warns the first time in this process (or worker thread). */
function warnOnce(count: number, tokens: number, largest: number, layout: Layout, first: number): void {
  if (warned) return;
  warned = true;
  const { sample, position } = placeOf(layout, "token", first);
  process.emitWarning(
    `logprobs: above 0 at ${count} of ${tokens} trained tokens, the largest ${largest}, the first at sample ${sample}, ` +
      `position ${position}: that is a probability above 1, of which log1mexp is NaN. ` +
      "createBatch({ clampLogprobs: true }) holds them at 0, false takes them as they are. This warning comes once; batch.positiveLogprobs counts them",
    { type: "TokengradWarning", code: "TOKENGRAD_POSITIVE_LOGPROBS" },
  );
}

/** Whether there is a number above 0 from `begin` to `end`; nearly always there is none. */
function anyPositive(values: Floats, begin: number, end: number): boolean {
  let largest = 0;
  for (let i = begin; i < end; i++) largest = Math.max(largest, values[i]!);
  return largest > 0;
}

/** Counts the packed log-probabilities that are above 0; sets them to 0 if `clamp` is true, warns if nobody says. */
export async function countPositives(
  logprobs: Floats,
  layout: Layout,
  clamp: boolean | undefined,
  pace: Pace,
): Promise<number> {
  let count = 0;
  let first = 0;
  let largest = 0;
  for (let begin = 0; begin < logprobs.length; begin += PIECE) {
    const end = Math.min(begin + PIECE, logprobs.length);
    if (pace.due(end - begin)) await pace.rest();
    if (!anyPositive(logprobs, begin, end)) continue;
    for (let token = begin; token < end; token++) {
      const value = logprobs[token]!;
      if (!(value > 0)) continue;
      if (count++ === 0) first = token;
      if (value > largest) largest = value;
      if (clamp) logprobs[token] = 0;
    }
  }
  if (count > 0 && clamp === undefined) warnOnce(count, logprobs.length, largest, layout, first);
  return count;
}
