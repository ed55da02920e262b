// Long JSON texts made of fixed texts and rows of numbers, written natively into a list of buffers.
import { type NativeWire, type NativeWritten, nativeWire } from "./binding.ts";
import { BlockPool } from "./blocks.ts";
import { type NativeFault, stoppedBy } from "./errors.ts";
import { bytesOf, Marks } from "./marks.ts";
import { refusal, type TextRow } from "./rows.ts";
import { Turns } from "./turns.ts";

export type { TextRow } from "./rows.ts";

/** A text as it is sent. */
export interface WrittenText {
  readonly chunks: readonly Buffer[];
  /** Sum of the chunks' lengths. */
  readonly bytes: number;
  /** The places that were marked, in the order of the marks, in bytes from the start of the text. */
  readonly marks: Float64Array;
  /** Hands the memory on to the next text. Only for the last user of the chunks; not needed. */
  release(): void;
}

/** Bytes that are written where the call is made: some hundred microseconds' worth. */
const INLINE_BYTES = 64 * 1024;
/** Rows that are handed over at once: less than a millisecond's worth. */
const GROUP_ROWS = 1024;

const pool = new BlockPool();

/** A group of rows that is being written. */
interface Write {
  readonly id: number;
  /** Its first row. */
  readonly first: number;
  readonly written: Promise<NativeWritten>;
}

/**
 * A text under construction: `text` and `row` append to it, `mark` notes how far it is, `write` gives it. Rows are read
 * when the text is written, and must not change until then. Values are written as the shortest decimals that read back to
 * the same float32 or bfloat16.
 */
export class TextBuilder {
  readonly #texts: string[] = [];
  readonly #rows: TextRow[] = [];
  readonly #marks = new Marks();
  #tail = "";
  #tailBytes = 0;

  /** Appends text as it is. */
  text(text: string): void {
    this.#tail += text;
    this.#tailBytes += bytesOf(text);
  }

  /** Appends a row as a JSON array. */
  row(row: TextRow): void {
    this.#texts.push(this.#tail);
    this.#rows.push(row);
    this.#tail = "";
    this.#tailBytes = 0;
  }

  /** Notes the place that the text has reached, for `WrittenText.marks`. */
  mark(): void {
    this.#marks.add(this.#rows.length, this.#tailBytes);
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
      const groups = await this.#finish(writes, signal);
      const lengths = groups.flatMap((group) => group.lengths);
      const chunks = blocks.map((block, i) => Buffer.from(block, 0, lengths[i]!));
      return {
        chunks: chunks.filter(({ length }) => length > 0),
        bytes: sum(lengths),
        marks: await this.#places(groups),
        release: () => pool.give(blocks.splice(0)),
      };
    } catch (error) {
      // Threads may still be writing to the blocks.
      stop();
      await Promise.allSettled(writes.map(({ written }) => written));
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
    let failed = false;
    for (let first = 0; first === 0 || first < rows.length; first += GROUP_ROWS) {
      // Behind a fault nothing need be written.
      if (failed || signal?.aborted) return;
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
      const small = rows.length <= GROUP_ROWS && sum(sizes) <= INLINE_BYTES;
      const written = small ? inPromise(() => wire.writeNow(id, own)) : wire.write(id, own);
      // Which fault is the first can be told when all have settled.
      written.catch(() => {
        failed = true;
      });
      writes.push({ id, first, written });
    }
  }

  /** The groups, once nothing is being written any more. */
  async #finish(writes: readonly Write[], signal: AbortSignal | undefined): Promise<NativeWritten[]> {
    const settled = await Promise.allSettled(writes.map(({ written }) => written));
    if (signal?.aborted) throw stoppedBy("body", signal);
    return settled.map((result, i) => {
      if (result.status === "fulfilled") return result.value;
      throw this.#typed(result.reason as NativeFault, writes[i]!.first);
    });
  }

  /** Where the marks lie in the groups' text. */
  #places(groups: readonly NativeWritten[]): Promise<Float64Array> {
    let end = 0;
    const starts = groups.map(({ lengths }) => {
      const start = end;
      end += sum(lengths);
      return start;
    });
    const endOf = (rows: number) => {
      if (rows === 0) return 0;
      const group = Math.floor((rows - 1) / GROUP_ROWS);
      return starts[group]! + groups[group]!.rowEnds[rows - 1 - group * GROUP_ROWS]!;
    };
    return this.#marks.places(endOf);
  }

  #typed(fault: NativeFault, first: number): unknown {
    if (fault.code !== "ERR_VALUE") return fault;
    return refusal(this.#rows[first + fault.row!]!, fault.position!);
  }
}

const sum = (numbers: readonly number[]) => numbers.reduce((all, number) => all + number, 0);

/** What `work` gives or throws. */
const inPromise = async <T>(work: () => T): Promise<T> => work();
