// Where the log-probabilities of a batch go: one memory, of which each operation fills its part.

import { Pace } from "../pace.ts";
import type { RowLayout } from "../rows/layout.ts";
import { nativeWire } from "../wire/binding.ts";
import { type RowLayout as Rows, readResult } from "../wire/result.ts";
import type { Range } from "./chunks.ts";

/** Memory that is not cleared: every number is written before any is seen, or none is. */
const memoryFor = (values: number) => new Float32Array(Buffer.allocUnsafeSlow(4 * values).buffer, 0, values);

/** Views that are made between two looks at the clock, counted as so many elements each. */
const VIEW_ELEMENTS = 64;

/** The numbers of a whole batch: full rows one behind the other, or its trained tokens only. */
export class Logprobs {
  readonly packed: boolean;
  /** Undefined until all parts have arrived. */
  readonly values: Float32Array;
  readonly #layout: RowLayout;
  /** First run of each sample, and one behind the last. */
  readonly #firstRuns: Float64Array;
  /** First number of each sample, and one behind the last. */
  readonly #firstValues: Float64Array;

  private constructor(
    layout: RowLayout,
    packed: boolean,
    firstRuns: Float64Array,
    firstValues: Float64Array,
  ) {
    this.packed = packed;
    this.#layout = layout;
    this.#firstRuns = firstRuns;
    this.#firstValues = firstValues;
    this.values = memoryFor(firstValues.at(-1)!);
  }

  /** @throws {LoadError} if the addon that reads them cannot be loaded: better now than when they are there. */
  static async of(layout: RowLayout, packed: boolean, pace: Pace): Promise<Logprobs> {
    nativeWire();
    const { runCounts, runs, rowOffsets } = layout;
    const firstRuns = new Float64Array(runCounts.length + 1);
    const firstTokens = new Float64Array(runCounts.length + 1);
    let run = 0;
    let tokens = 0;
    for (let sample = 0; sample < runCounts.length; sample++) {
      for (const end = run + runCounts[sample]!; run < end; run++) {
        tokens += runs[2 * run + 1]!;
        if (pace.due(1)) await pace.rest();
      }
      firstRuns[sample + 1] = run;
      firstTokens[sample + 1] = tokens;
      if (pace.due(1)) await pace.rest();
    }
    return new Logprobs(layout, packed, firstRuns, packed ? firstTokens : rowOffsets);
  }

  /** What an operation of these samples brings. */
  part({ from, to }: Range): LogprobsPart {
    const { rowLengths, runCounts, runs } = this.#layout;
    const rows = {
      rowLengths: rowLengths.subarray(from, to),
      runCounts: runCounts.subarray(from, to),
      runs: runs.subarray(2 * this.#firstRuns[from]!, 2 * this.#firstRuns[to]!),
    };
    const output = this.values.subarray(this.#firstValues[from]!, this.#firstValues[to]!);
    return new LogprobsPart(rows, output, this.packed, from);
  }

  /** A view of each sample's numbers. */
  async rows(pace = new Pace()): Promise<Float32Array[]> {
    const { buffer } = this.values;
    const rows = new Array<Float32Array>(this.#layout.rowLengths.length);
    for (let sample = 0; sample < rows.length; sample++) {
      const first = this.#firstValues[sample]!;
      rows[sample] = new Float32Array(buffer, 4 * first, this.#firstValues[sample + 1]! - first);
      if (pace.due(VIEW_ELEMENTS)) await pace.rest();
    }
    return rows;
  }
}

/** The rows of one operation. They may be read any number of times, one after the other. */
export class LogprobsPart {
  /** Index of the first sample in its batch. */
  readonly from: number;
  readonly #rows: Rows;
  readonly #output: Float32Array;
  readonly #packed: boolean;
  #arrived = false;

  constructor(rows: Rows, output: Float32Array, packed: boolean, from: number) {
    this.from = from;
    this.#rows = rows;
    this.#output = output;
    this.#packed = packed;
  }

  /** Whether all its numbers are there. */
  get arrived(): boolean {
    return this.#arrived;
  }

  /**
   * Reads a text that may bring the rows, at `path`, and gives it without their numbers.
   *
   * @throws {ResultError} which counts the samples of this part.
   */
  async read(text: AsyncIterable<Uint8Array>, path: readonly string[]): Promise<unknown> {
    try {
      const { value, rows } = await readResult(text, {
        path,
        layout: this.#rows,
        output: this.#output,
        packed: this.#packed,
      });
      // What comes apart from the rest of an answer need not come with it again.
      if (rows > 0) this.#arrived = true;
      return value;
    } catch (error) {
      this.#arrived = false;
      throw error;
    }
  }
}
