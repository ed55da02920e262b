// Long JSON texts made of fixed texts and rows of numbers, written natively into a list of buffers.
import { blocks as pool } from "../blocks.ts";
import { AbortError, InputError } from "../errors.ts";
import { Pace, PIECE } from "../pace.ts";
import { type NativeWritten, nativeWire } from "./binding.ts";
import { RowColumns, type TextRow } from "./columns.ts";
import { type NativeFault, stoppedBy, unexpected } from "./errors.ts";
import { Marks, sum, utf8Length } from "./marks.ts";

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
const WRITTEN_HERE_BYTES = 768 * 1024;
/** Rows that are handed over first: most texts have no more. */
const FIRST_ROWS = 32;
/** Rows, values of rows, and bytes of texts that are handed over at once: some millisecond's worth. */
const GROUP_ROWS = 512;
const GROUP_VALUES = 512 * 1024;
const GROUP_TEXT = 1024 * 1024;

/** Rows that are handed over at once. */
interface Group {
  /** Needed until they are written. */
  rows?: RowColumns;
  /** The text behind the last row, and its bytes. */
  readonly end: string;
  readonly endBytes: number;
  /** Once they are handed over. */
  id?: number;
  written?: Promise<NativeWritten>;
}

/**
 * A text under construction: `text` and `row` append to it, `mark` notes how far it is, `write` gives it. Threads write
 * the first rows while the next ones are appended, if the writer waits for `settled` between them; rows must not change
 * until the text is there. Values are written as the shortest decimals that read back to the same float32 or bfloat16.
 */
export class TextBuilder {
  readonly #wire = nativeWire();
  readonly #signal: AbortSignal | undefined;
  readonly #groups: Group[] = [];
  readonly #blocks: ArrayBuffer[] = [];
  readonly #marks = new Marks();
  readonly #pace = new Pace();
  /** Groups that are handed over, the first ones. */
  #handedOver = 0;
  /** Columns of groups that are written. */
  readonly #spare: RowColumns[] = [];
  /** What is in no group yet: rows, and the text behind the last one. */
  #rows = new RowColumns(FIRST_ROWS);
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
    this.#tailBytes += utf8Length(text);
  }

  /** Appends a row as a JSON array. */
  row(row: TextRow): void {
    if (!this.#rows.takes(row)) this.#beginGroup();
    const rows = this.#rows;
    rows.add(this.#tail, this.#tailBytes, row);
    this.#tail = "";
    this.#tailBytes = 0;
    const { size, capacity, values, textBytes } = rows;
    if (size === capacity || values >= GROUP_VALUES || textBytes >= GROUP_TEXT) this.#beginGroup();
  }

  /** Notes the place that the text has reached, for `WrittenText.marks`. */
  mark(): void {
    this.#marks.add(this.#groups.length, this.#rows.size, this.#tailBytes);
  }

  /**
   * What to wait for before more is appended, where enough has come together to be handed to the threads.
   *
   * @throws {InputError} naming sample and position of a value of the wrong type. The text is then to be cancelled.
   */
  settled(): Promise<void> | undefined {
    return this.#handedOver < this.#groups.length ? this.#handOver() : undefined;
  }

  /**
   * The whole text.
   *
   * @throws {InputError} naming sample and position of the first value that cannot be written.
   * @throws {AbortError} once the signal has fired and nothing is being written any more.
   */
  async write(): Promise<WrittenText> {
    try {
      this.#end();
      await this.#handOver();
      const groups = await this.#written();
      const lengths = groups.flatMap((group) => group.lengths);
      const blocks = this.#blocks;
      const chunks = blocks.map((block, i) => Buffer.from(block, 0, lengths[i]!));
      const marks = await this.#marks.places(groups);
      this.#signal?.removeEventListener("abort", this.#stop);
      return {
        chunks: chunks.filter(({ length }) => length > 0),
        bytes: sum(lengths),
        marks,
        release: () => pool.give(blocks.splice(0)),
      };
    } catch (error) {
      throw await this.cancel(error);
    }
  }

  /**
   * Gives the text up, for an error behind what was appended. Settles with the first error of the text, or that one, when
   * nothing is being written any more.
   */
  async cancel(error: unknown): Promise<unknown> {
    let first = error;
    // Others than these come of the end itself.
    const note = (earlier: unknown) => {
      if (earlier instanceof InputError || earlier instanceof AbortError) first = earlier;
    };
    this.#end();
    await this.#handOver().catch(note);
    await this.#written().catch(note);
    this.#stop();
    this.#signal?.removeEventListener("abort", this.#stop);
    pool.give(this.#blocks.splice(0));
    return first;
  }

  readonly #stop = () => {
    for (const { id } of this.#groups) if (id !== undefined) this.#wire.cancel(id);
  };

  /** Makes a group of the rows that are in none yet. */
  #beginGroup(): void {
    this.#groups.push({ rows: this.#rows, end: "", endBytes: 0 });
    this.#rows = this.#spare.pop() ?? new RowColumns(GROUP_ROWS);
  }

  /** Makes the last group, with the text behind it. */
  #end(): void {
    this.#groups.push({ rows: this.#rows, end: this.#tail, endBytes: this.#tailBytes });
    this.#rows = new RowColumns(0);
  }

  async #handOver(): Promise<void> {
    while (this.#handedOver < this.#groups.length) {
      const group = this.#groups[this.#handedOver++]!;
      // Behind a fault nothing need be written.
      if (this.#failed || this.#signal?.aborted) return;
      try {
        await this.#begin(group);
      } catch (error) {
        this.#failed = true;
        throw error;
      }
    }
  }

  /** Gives a group's rows to the threads, with the blocks to write them to. */
  async #begin(group: Group): Promise<void> {
    const rows = group.rows!;
    const fault = await rows.settle(this.#signal);
    const { id, sizes } = this.#wire.plan(rows.close(group.end, group.endBytes));
    group.id = id;
    const blocks: ArrayBuffer[] = [];
    // New memory takes its time.
    for (const size of sizes) {
      blocks.push(pool.take(size));
      if (this.#pace.due(PIECE)) await this.#pace.rest();
    }
    if (this.#signal?.aborted) return;
    this.#blocks.push(...blocks);
    const small = group === this.#groups[0] && sum(sizes) <= WRITTEN_HERE_BYTES;
    const write = small ? async () => this.#wire.writeNow(id, blocks) : () => this.#wire.write(id, blocks);
    group.written = write();
    group.written.then(
      () => {
        delete group.rows;
        rows.clear();
        if (rows.capacity === GROUP_ROWS) this.#spare.push(rows);
      },
      // Which fault is the first can be told when all have settled.
      () => {
        this.#failed = true;
      },
    );
    if (fault !== undefined) throw fault;
  }

  /** What the groups have become, once nothing is being written any more. */
  async #written(): Promise<NativeWritten[]> {
    const settled = await Promise.allSettled(this.#groups.map(({ written }) => written));
    if (this.#signal?.aborted) throw stoppedBy("body", this.#signal);
    return settled.map((result, i) => {
      // None is left out but behind a fault.
      if (result.status === "fulfilled") return result.value!;
      const fault = result.reason as NativeFault;
      if (fault.code !== "ERR_VALUE") throw unexpected(fault);
      throw this.#groups[i]!.rows!.refusal(fault.row!, fault.position!);
    });
  }
}
