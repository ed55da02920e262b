// Long JSON texts made of fixed texts and rows of numbers, written natively into a list of buffers.
import { describe, InputError } from "../errors.ts";
import { type NativeRow, type NativeWire, nativeWire } from "./binding.ts";
import { BlockPool } from "./blocks.ts";
import { type NativeFault, stoppedBy } from "./errors.ts";

/** A row, and where it stands for error messages. */
export interface TextRow extends NativeRow {
  /** As in `samples[3].weights`. */
  readonly path: string;
  readonly sample: number;
}

/** A text as it is sent. */
export interface WrittenText {
  readonly chunks: readonly Buffer[];
  /** Sum of the chunks' lengths. */
  readonly bytes: number;
  /** Hands the memory on to the next text. Only for the last user of the chunks; not needed. */
  release(): void;
}

/** Bytes that are written where the call is made: some hundred microseconds' worth. */
const INLINE_BYTES = 64 * 1024;

const EXPECTED = {
  number: "a finite number within the range of its type",
  weight: "0 or a positive float32",
  id: "an integer from 0 to 2^63 - 1",
  quotedId: "an integer from 0 to 2^63 - 1",
} as const;

const pool = new BlockPool();

/**
 * A text under construction: `text` and `row` append to it, `write` gives it. Rows are read when the text is written, and
 * must not change until then. Values are written as the shortest decimals that read back to the same float32 or bfloat16.
 */
export class TextBuilder {
  readonly #texts: string[] = [];
  readonly #rows: TextRow[] = [];
  #tail = "";

  /** Appends text as it is. */
  text(text: string): void {
    this.#tail += text;
  }

  /** Appends a row as a JSON array. */
  row(row: TextRow): void {
    this.#texts.push(this.#tail);
    this.#rows.push(row);
    this.#tail = "";
  }

  /**
   * Writes the text; a large one on threads of its own.
   *
   * @throws {InputError} naming sample and position of the first value that cannot be written.
   * @throws {AbortError} once the signal has fired and nothing is being written any more.
   */
  async write(signal?: AbortSignal): Promise<WrittenText> {
    if (signal?.aborted) throw stoppedBy("body", signal);
    const wire = nativeWire();
    const { id, sizes } = wire.plan([...this.#texts, this.#tail], this.#rows);
    const blocks = sizes.map((size) => pool.take(size));
    try {
      const large = sizes.reduce((sum, size) => sum + size, 0) > INLINE_BYTES;
      const lengths = large ? await this.#onThreads(wire, id, blocks, signal) : wire.writeNow(id, blocks);
      return {
        chunks: blocks
          .map((block, i) => Buffer.from(block, 0, lengths[i]!))
          .filter(({ length }) => length > 0),
        bytes: lengths.reduce((sum, length) => sum + length, 0),
        release: () => pool.give(blocks.splice(0)),
      };
    } catch (error) {
      pool.give(blocks);
      throw this.#typed(error as NativeFault, signal);
    }
  }

  async #onThreads(
    wire: NativeWire,
    id: number,
    blocks: readonly ArrayBuffer[],
    signal: AbortSignal | undefined,
  ): Promise<number[]> {
    const stop = () => wire.cancel(id);
    signal?.addEventListener("abort", stop);
    try {
      return await wire.write(id, blocks);
    } finally {
      signal?.removeEventListener("abort", stop);
    }
  }

  #typed(fault: NativeFault, signal: AbortSignal | undefined): unknown {
    if (fault.code === "ERR_ABORTED" && signal) return stoppedBy("body", signal);
    if (fault.code !== "ERR_VALUE") return fault;
    const { path, sample, rule, values, runs } = this.#rows[fault.row!]!;
    const position = fault.position!;
    const value = valueAt(values, runs === undefined ? position : packedIndex(runs, position));
    return new InputError(path, `expected ${EXPECTED[rule]}, got ${describe(value)}`, { sample, position });
  }
}

/** The place of a position's value among those of the runs. */
function packedIndex(runs: Uint32Array, position: number): number {
  let before = 0;
  for (let i = 0; i < runs.length && position >= runs[i]! + runs[i + 1]!; i += 2) before += runs[i + 1]!;
  const run = runs.findIndex((start, i) => i % 2 === 0 && position < start + runs[i + 1]!);
  return before + position - runs[run]!;
}

function valueAt(values: NativeRow["values"], index: number): number | bigint {
  const value = values[index]!;
  if (!(values instanceof Uint16Array)) return value;
  return new Float32Array(Uint32Array.of((value as number) * 0x10000).buffer)[0]!;
}
