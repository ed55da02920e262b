// Where the log-probabilities of a batch go: one memory, of which each operation fills its part.

import { blocks } from "../blocks.ts";
import { Pace } from "../pace.ts";
import type { IndexedRowLayout } from "../rows/layout.ts";
import { type ResultLayout, readResult } from "../wire/result.ts";
import type { Range } from "./chunks.ts";

/** Memory that is not cleared: every number is written before any is seen, or none is. */
const memoryFor = (values: number) => new Float32Array(blocks.take(4 * values), 0, values);

/** Views that are made between two looks at the clock, counted as so many elements each. */
const VIEW_ELEMENTS = 64;

/** The numbers of a whole batch: full rows one behind the other, or its trained tokens only. */
export class Logprobs {
  readonly packed: boolean;
  /** Undefined until all parts have arrived. */
  readonly values: Float32Array;
  readonly #layout: IndexedRowLayout;
  /** First number of each sample, and one behind the last. */
  readonly #offsets: Float64Array;

  constructor(layout: IndexedRowLayout, packed: boolean) {
    this.packed = packed;
    this.#layout = layout;
    this.#offsets = packed ? layout.tokenOffsets : layout.rowOffsets;
    this.values = memoryFor(this.#offsets.at(-1)!);
  }

  /** What an operation of these samples brings. */
  part({ from, to }: Range): LogprobsPart {
    const { rowLengths, runCounts, runs, runOffsets } = this.#layout;
    const rows = {
      rowLengths: rowLengths.subarray(from, to),
      runCounts: runCounts.subarray(from, to),
      runs: runs.subarray(2 * runOffsets[from]!, 2 * runOffsets[to]!),
    };
    const output = this.values.subarray(this.#offsets[from]!, this.#offsets[to]!);
    return new LogprobsPart(rows, output, this.packed, from);
  }

  /** A view of each sample's numbers. */
  async rows(): Promise<Float32Array[]> {
    const pace = new Pace();
    const { buffer } = this.values;
    const rows = new Array<Float32Array>(this.#layout.rowLengths.length);
    for (let sample = 0; sample < rows.length; sample++) {
      const first = this.#offsets[sample]!;
      rows[sample] = new Float32Array(buffer, 4 * first, this.#offsets[sample + 1]! - first);
      if (pace.due(VIEW_ELEMENTS)) await pace.rest();
    }
    return rows;
  }
}

/** The rows of one operation. They may be read any number of times, one after the other. */
export class LogprobsPart {
  /** Index of the first sample in its batch. */
  readonly from: number;
  readonly #rows: ResultLayout;
  readonly #output: Float32Array;
  readonly #packed: boolean;
  #arrived = false;

  constructor(rows: ResultLayout, output: Float32Array, packed: boolean, from: number) {
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
