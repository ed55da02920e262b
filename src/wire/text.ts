// Long JSON texts made of fixed texts and rows of numbers, written natively into a list of buffers.
import { describe, InputError } from "../errors.ts";
import { type NativeRow, type NativeWire, nativeWire } from "./binding.ts";
import { BlockPool } from "./blocks.ts";
import { type NativeFault, stoppedBy } from "./errors.ts";
import { Turns } from "./turns.ts";

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
/** Rows that are handed over at once: less than a millisecond's worth. */
const GROUP_ROWS = 1024;

const EXPECTED = {
  number: "a finite number within the range of its type",
  weight: "0 or a positive float32",
  id: "an integer from 0 to 2^63 - 1",
  quotedId: "an integer from 0 to 2^63 - 1",
} as const;

const pool = new BlockPool();

/** A group of rows that is being written. */
interface Write {
  readonly id: number;
  /** Its first row. */
  readonly first: number;
  readonly lengths: Promise<number[]>;
}

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
    const blocks: ArrayBuffer[] = [];
    const writes: Write[] = [];
    const stop = () => {
      for (const { id } of writes) wire.cancel(id);
    };
    signal?.addEventListener("abort", stop);
    try {
      await this.#start(wire, blocks, writes, signal);
      const lengths = await this.#finish(writes, signal);
      const chunks = blocks.map((block, i) => Buffer.from(block, 0, lengths[i]!));
      return {
        chunks: chunks.filter(({ length }) => length > 0),
        bytes: lengths.reduce((sum, length) => sum + length, 0),
        release: () => pool.give(blocks.splice(0)),
      };
    } catch (error) {
      pool.give(blocks);
      throw error;
    } finally {
      signal?.removeEventListener("abort", stop);
    }
  }

  /** Hands the rows over, in groups, with the blocks to write them to. */
  async #start(
    wire: NativeWire,
    blocks: ArrayBuffer[],
    writes: Write[],
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const turns = new Turns();
    const rows = this.#rows;
    for (let first = 0; first === 0 || first < rows.length; first += GROUP_ROWS) {
      if (signal?.aborted) return;
      const group = rows.slice(first, first + GROUP_ROWS);
      const last = first + group.length === rows.length ? this.#tail : "";
      const texts = [...this.#texts.slice(first, first + group.length), last];
      const { id, sizes } = wire.plan(texts, group);
      const own: ArrayBuffer[] = [];
      // New memory takes its time.
      for (const size of sizes) {
        own.push(pool.take(size));
        if (turns.over) await turns.next();
      }
      blocks.push(...own);
      const bytes = own.reduce((sum, { byteLength }) => sum + byteLength, 0);
      const small = rows.length <= GROUP_ROWS && bytes <= INLINE_BYTES;
      const lengths = small ? inPromise(() => wire.writeNow(id, own)) : wire.write(id, own);
      writes.push({ id, first, lengths });
    }
  }

  /** The bytes written of each block, once nothing is being written any more. */
  async #finish(writes: readonly Write[], signal: AbortSignal | undefined): Promise<number[]> {
    const settled = await Promise.allSettled(writes.map(({ lengths }) => lengths));
    if (signal?.aborted) throw stoppedBy("body", signal);
    return settled.flatMap((result, i) => {
      if (result.status === "fulfilled") return result.value;
      throw this.#typed(result.reason as NativeFault, writes[i]!.first);
    });
  }

  #typed(fault: NativeFault, first: number): unknown {
    if (fault.code !== "ERR_VALUE") return fault;
    const { path, sample, rule, values, runs } = this.#rows[first + fault.row!]!;
    const position = fault.position!;
    const value = valueAt(values, runs === undefined ? position : packedIndex(runs, position));
    return new InputError(path, `expected ${EXPECTED[rule]}, got ${describe(value)}`, { sample, position });
  }
}

/** What `work` gives or throws. */
const inPromise = async <T>(work: () => T): Promise<T> => work();

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
