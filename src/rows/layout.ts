// Where the trained positions of samples' rows lie, read from their weights.
import { describe, InputError } from "../errors.ts";
import { type Pace, PIECE } from "../pace.ts";
import { isNumberList, notANumber, type Row } from "./rows.ts";

/** A row has one position per target. Its trained tokens, those of weight above 0, come in runs of neighbours. */
export interface RowLayout {
  /** Positions in each sample's row. */
  readonly rowLengths: Uint32Array;
  /** First position of each sample's row in the rows of the whole batch, and one behind the last. */
  readonly rowOffsets: Float64Array;
  /** Runs of trained tokens in each sample's row. */
  readonly runCounts: Uint32Array;
  /** First position in its row, and length, of each run. */
  readonly runs: Uint32Array;
  /** Trained tokens of the whole batch. */
  readonly tokens: number;
  /** Samples without a trained token. */
  readonly emptySamples: number;
}

/** A layout in which a sample's part is found at once. */
export interface IndexedRowLayout extends RowLayout {
  /** First run of each sample among all runs, and one behind the last. */
  readonly runOffsets: Float64Array;
  /** First trained token of each sample among all trained tokens, and one behind the last. */
  readonly tokenOffsets: Float64Array;
}

/**
 * Goes over the runs of trained tokens in their order: `start` is the run's first position in its sample's row, `token`
 * its first trained token of the batch.
 */
export function* runsOf({ runCounts, runs }: Pick<RowLayout, "runCounts" | "runs">): Iterable<{
  readonly sample: number;
  readonly start: number;
  readonly size: number;
  readonly token: number;
}> {
  let run = 0;
  let token = 0;
  for (let sample = 0; sample < runCounts.length; sample++) {
    for (const end = run + runCounts[sample]!; run < end; run++) {
      const size = runs[2 * run + 1]!;
      yield { sample, start: runs[2 * run]!, size, token };
      token += size;
    }
  }
}

/** Largest number of positions in one row. */
const MAX_ROW = 2 ** 32 - 1;

/** Runs in memory that grows chunk by chunk, as moving all of them at once would hold the event loop. */
class RunList {
  readonly #chunks: Uint32Array[] = [];
  #used = PIECE;
  length = 0;

  push(start: number, length: number): void {
    if (this.#used === PIECE) {
      this.#chunks.push(new Uint32Array(PIECE));
      this.#used = 0;
    }
    const chunk = this.#chunks.at(-1)!;
    chunk[this.#used++] = start;
    chunk[this.#used++] = length;
    this.length++;
  }

  /** All runs in one array: start, length, start, length, ... */
  async join(pace: Pace): Promise<Uint32Array> {
    const joined = new Uint32Array(2 * this.length);
    for (const [i, chunk] of this.#chunks.entries()) {
      joined.set(chunk.subarray(0, joined.length - i * PIECE), i * PIECE);
      if (pace.due(PIECE)) await pace.rest();
    }
    return joined;
  }
}

const bitsOf = ({ buffer, byteOffset, length }: Float32Array) => new Int32Array(buffer, byteOffset, length);

/** The next index with another value than at `i`: neighbours are alike nearly always. */
function nextOther(bits: Int32Array, i: number, end: number): number {
  const alike = bits[i];
  let next = i + 1;
  while (next < end && bits[next] === alike) next++;
  return next;
}

/** Finds the runs of one row. */
async function readRow(path: string, sample: number, row: Row, runs: RunList, pace: Pace): Promise<number> {
  let tokens = 0;
  let start = -1;
  const bits = row instanceof Float32Array ? bitsOf(row) : undefined;
  for (let begin = 0; begin < row.length; begin += PIECE) {
    const end = Math.min(row.length, begin + PIECE);
    for (let i = begin; i < end; i = bits === undefined ? i + 1 : nextOther(bits, i, end)) {
      const weight: unknown = row[i];
      if (typeof weight !== "number") throw notANumber(path, sample, i, weight);
      if (weight > 0 && weight < Infinity) {
        if (start < 0) start = i;
      } else if (weight === 0) {
        if (start >= 0) {
          runs.push(start, i - start);
          tokens += i - start;
          start = -1;
        }
      } else {
        throw new InputError(path, `expected a finite number of at least 0, got ${weight}`, {
          sample,
          position: i,
        });
      }
    }
    if (pace.due(end - begin)) await pace.rest();
  }
  if (start >= 0) {
    runs.push(start, row.length - start);
    tokens += row.length - start;
  }
  return tokens;
}

/**
 * Finds the trained positions of rows of weights; `pathOf` gives a row's path for messages.
 *
 * @throws {InputError} where a weight is negative, not finite or no number.
 */
export async function readRowLayout(
  weights: readonly Row[],
  pathOf: (sample: number) => string,
  pace: Pace,
): Promise<IndexedRowLayout> {
  const samples = weights.length;
  const rowLengths = new Uint32Array(samples);
  const rowOffsets = new Float64Array(samples + 1);
  const runCounts = new Uint32Array(samples);
  const runOffsets = new Float64Array(samples + 1);
  const tokenOffsets = new Float64Array(samples + 1);
  const list = new RunList();
  let tokens = 0;
  let emptySamples = 0;
  for (let sample = 0; sample < samples; sample++) {
    const row: unknown = weights[sample];
    if (!isNumberList(row) || row.length > MAX_ROW) {
      throw new InputError(pathOf(sample), `expected a row of numbers, got ${describe(row)}`, { sample });
    }
    const trained = await readRow(pathOf(sample), sample, row, list, pace);
    if (trained === 0) emptySamples++;
    tokens += trained;
    rowLengths[sample] = row.length;
    rowOffsets[sample + 1] = rowOffsets[sample]! + row.length;
    runCounts[sample] = list.length - runOffsets[sample]!;
    runOffsets[sample + 1] = list.length;
    tokenOffsets[sample + 1] = tokens;
  }
  const runs = await list.join(pace);
  return { rowLengths, rowOffsets, runCounts, runs, tokens, emptySamples, runOffsets, tokenOffsets };
}
