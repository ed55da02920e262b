// Long JSON texts made of fixed texts and rows of numbers, written natively into a list of buffers.
import { blocks as pool } from "../blocks.ts";
import { AbortError, InputError } from "../errors.ts";
import { Pace, PIECE } from "../pace.ts";
import { type NativeWritten, nativeWire } from "./binding.ts";
import { type NativeFault, stoppedBy } from "./errors.ts";
import { bytesOf, Marks, sum } from "./marks.ts";
import { RowColumns, type TextRow } from "./rows.ts";

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
const INLINE_BYTES = 768 * 1024;
/** Rows, values of rows, and bytes of texts that are handed over at once: some millisecond's worth. */
const GROUP_ROWS = 512;
const GROUP_VALUES = 512 * 1024;
const GROUP_TEXT = 1024 * 1024;

/** Rows that are being written. */
interface Group {
  readonly id: number;
  readonly rows: RowColumns;
  readonly written: Promise<NativeWritten>;
}

/**
 * A text under construction: `text` and `row` append to it, `mark` notes how far it is, `write` gives it. Threads write
 * the first rows while the next ones are appended; rows must not change until the text is there. Values are written as the
 * shortest decimals that read back to the same float32 or bfloat16.
 */
export class TextBuilder {
  readonly #wire = nativeWire();
  readonly #signal: AbortSignal | undefined;
  readonly #groups: Group[] = [];
  readonly #blocks: ArrayBuffer[] = [];
  readonly #marks = new Marks();
  readonly #pace = new Pace();
  /** What is not handed over: rows, and the text behind the last one. */
  #rows = new RowColumns();
  #tail = "";
  #tailBytes = 0;
  #failed = false;

  /** A text that is begun must come to its end by `write` or `cancel`. */
  constructor(signal?: AbortSignal) {
    this.#signal = signal;
    signal?.addEventListener("abort", this.#stop);
  }

  /** Appends text as it is. */
  text(text: string): void {
    this.#tail += text;
    this.#tailBytes += bytesOf(text);
  }

  /** Appends a row as a JSON array. The next part may be appended when a promise that it gives has settled. */
  row(row: TextRow): Promise<void> | undefined {
    const rows = this.#rows;
    rows.add(this.#tail, row);
    this.#tail = "";
    this.#tailBytes = 0;
    const full = rows.size >= GROUP_ROWS || rows.values >= GROUP_VALUES || rows.textBytes >= GROUP_TEXT;
    return full ? this.#handOver("") : undefined;
  }

  /** Notes the place that the text has reached, for `WrittenText.marks`. */
  mark(): void {
    this.#marks.add(this.#groups.length, this.#rows.size, this.#tailBytes);
  }

  /**
   * The whole text.
   *
   * @throws {InputError} naming sample and position of the first value that cannot be written.
   * @throws {AbortError} once the signal has fired and nothing is being written any more.
   */
  async write(): Promise<WrittenText> {
    try {
      await this.#handOver(this.#tail);
      const groups = await this.#written();
      const lengths = groups.flatMap((group) => group.lengths);
      const blocks = this.#blocks;
      const chunks = blocks.map((block, i) => Buffer.from(block, 0, lengths[i]!));
      return {
        chunks: chunks.filter(({ length }) => length > 0),
        bytes: sum(lengths),
        marks: await this.#marks.places(groups),
        release: () => pool.give(blocks.splice(0)),
      };
    } catch (error) {
      throw await this.cancel(error);
    } finally {
      this.#signal?.removeEventListener("abort", this.#stop);
    }
  }

  /** Gives the text up, for an error behind what was appended. Settles with the first error of the text, or that one. */
  async cancel(error: unknown): Promise<unknown> {
    const first = this.#written().then(
      () => error,
      // Others than these come of the end itself.
      (earlier) => (earlier instanceof InputError || earlier instanceof AbortError ? earlier : error),
    );
    this.#stop();
    await first;
    this.#signal?.removeEventListener("abort", this.#stop);
    pool.give(this.#blocks.splice(0));
    return first;
  }

  readonly #stop = () => {
    for (const { id } of this.#groups) this.#wire.cancel(id);
  };

  /** Hands the rows over, with the blocks to write them to. */
  async #handOver(end: string): Promise<void> {
    const rows = this.#rows;
    this.#rows = new RowColumns();
    // Behind a fault nothing need be written.
    if (this.#failed || this.#signal?.aborted) return;
    const { id, sizes } = this.#wire.plan(rows.close(end));
    const blocks: ArrayBuffer[] = [];
    // New memory takes its time.
    for (const size of sizes) {
      blocks.push(pool.take(size));
      if (this.#pace.due(PIECE)) await this.#pace.rest();
    }
    this.#blocks.push(...blocks);
    const small = this.#groups.length === 0 && sum(sizes) <= INLINE_BYTES;
    const written = small ? inPromise(() => this.#wire.writeNow(id, blocks)) : this.#wire.write(id, blocks);
    // Which fault is the first can be told when all have settled.
    written.catch(() => {
      this.#failed = true;
    });
    this.#groups.push({ id, rows, written });
  }

  /** The groups, once nothing is being written any more. */
  async #written(): Promise<NativeWritten[]> {
    const settled = await Promise.allSettled(this.#groups.map(({ written }) => written));
    if (this.#signal?.aborted) throw stoppedBy("body", this.#signal);
    return settled.map((result, i) => {
      if (result.status === "fulfilled") return result.value;
      const fault = result.reason as NativeFault;
      if (fault.code !== "ERR_VALUE") throw fault;
      throw this.#groups[i]!.rows.refusal(fault.row!, fault.position!);
    });
  }
}

/** What `work` gives or throws. */
const inPromise = async <T>(work: () => T): Promise<T> => work();
