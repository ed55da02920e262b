// The wire as it is measured: rows of numbers to text, and a result to log-probabilities.

import type { TextRow } from "../../src/wire/columns.ts";
import { LOGPROBS_IN_OUTPUT, type ResultLayout, readResult } from "../../src/wire/result.ts";
import { TextBuilder, type WrittenText } from "../../src/wire/text.ts";

/** Bytes of a part of a result, as a network hands them over. */
const PART_BYTES = 64 * 1024;

/** Writes rows as gradients travel. */
export async function write(rows: readonly TextRow["values"][], rule: TextRow["rule"]): Promise<WrittenText> {
  const text = new TextBuilder();
  for (const [sample, values] of rows.entries()) {
    text.text(sample === 0 ? '[{"data":' : '},{"data":');
    text.row({ values, rule, path: "rows", sample });
    await text.settled();
  }
  text.text("}]");
  return text.write();
}

export const partsOf = (text: Buffer): Buffer[] =>
  Array.from({ length: Math.ceil(text.length / PART_BYTES) }, (_, part) =>
    text.subarray(part * PART_BYTES, (part + 1) * PART_BYTES),
  );

async function* arriving(parts: readonly Buffer[]) {
  for (const part of parts) {
    await new Promise(setImmediate);
    yield part;
  }
}

/** Reads the log-probabilities of the trained positions. */
export async function read(
  parts: readonly Buffer[],
  layout: ResultLayout,
  output: Float32Array,
): Promise<void> {
  await readResult(arriving(parts), { path: LOGPROBS_IN_OUTPUT, layout, output, packed: true });
}

/** Of samples of one length, the first quarter of which is prompt. */
export const layoutOf = (samples: number, length: number): ResultLayout => ({
  rowLengths: new Uint32Array(samples).fill(length),
  runCounts: new Uint32Array(samples).fill(1),
  runs: Uint32Array.from({ length: 2 * samples }, (_, i) => (i % 2 === 0 ? length / 4 : (length * 3) / 4)),
});
