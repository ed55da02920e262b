// The part of the addon that writes request bodies and reads results.
import { loadAddon } from "../addon.ts";

/** Numbers that can be written; a `Uint16Array` holds the bits of bfloat16. */
export type RowValues = Float32Array | Float64Array | Uint16Array | Int32Array | BigInt64Array;

/**
 * How values are written: as finite float32 or bfloat16; as 0 or a float32 above 0; as whole numbers of at least 0; or the
 * same with those above 2^53 - 1 in quotes. The addon knows a rule by its index.
 */
export const RULES = ["number", "weight", "id", "quotedId"] as const;

/**
 * Rows to be written as JSON arrays, column by column, and the fixed texts around them. The addon reads the values in
 * place: their buffers must not be resizable or shared.
 */
export interface NativeRows {
  /** The texts one behind the other: one before each row, and one behind the last. */
  readonly text: string;
  /** Where each of them ends. @unit bytes */
  readonly textEnds: Uint32Array;
  readonly values: readonly RowValues[];
  /** Indexes of `RULES`. */
  readonly rules: Uint8Array;
  /** First position and length of each run. */
  readonly runs: Uint32Array;
  /**
   * Index of each row's first run and how many there are; all positions outside of them hold 0, or -0. Of -1 runs every
   * position has its value.
   */
  readonly runRanges: Int32Array;
  /** Positions of a row whose values are those of its runs only; -1 where `values` has all positions. */
  readonly lengths: Float64Array;
}

/** A text that is written. */
export interface NativeWritten {
  /** Bytes of each block. */
  readonly lengths: number[];
  /** Where each row ends, in bytes from the start of the text. */
  readonly rowEnds: Float64Array;
}

export interface NativeReadOptions {
  /** Members that lead to a row; `*` stands for the elements of an array, one a sample. */
  readonly path: readonly string[];
  readonly rowLengths: Uint32Array;
  readonly runCounts: Uint32Array;
  readonly runs: Uint32Array;
  readonly output: Float32Array;
  /** Whether `output` holds the positions within runs only. */
  readonly packed: boolean;
}

/** Threads of their own, which end with the environment. */
export interface NativeWire {
  /** Prepares a text. `sizes` are the bytes of the blocks that it wants. */
  plan(rows: NativeRows): { id: number; sizes: number[] };
  /** Writes it here and now. */
  writeNow(id: number, blocks: readonly ArrayBuffer[]): NativeWritten;
  /** Writes it on the threads. */
  write(id: number, blocks: readonly ArrayBuffer[]): Promise<NativeWritten>;
  /** Begins to read a result. It must be finished or cancelled. */
  open(options: NativeReadOptions): number;
  /** Takes the next part, which must not change any more, and gives the bytes that wait; -1 if the text was refused. */
  push(id: number, part: Uint8Array): number;
  /** Settles when nothing waits. */
  drained(id: number): Promise<void>;
  /** The text without the rows' numbers, and the number of rows. */
  finish(id: number): Promise<{ rest: string; rows: number }>;
  /** Asks a text or a result to end, soon, with `ERR_ABORTED`. Unknown ids are passed over. */
  cancel(id: number): void;
  /** Cancels everything and ends the threads when it has settled. Safe to call twice. */
  dispose(): void;
}

interface WireBinding {
  readonly availableCpus: number;
  readonly Wire: new (options: { readonly threads: number; readonly pieceBytes: number }) => NativeWire;
}

/**
 * Bytes of a piece of text: enough for a TLS write to be worth it, few enough that every thread finds some in a small
 * body, and that none is held for more than a millisecond.
 */
const PIECE_BYTES = 256 * 1024;

let wire: NativeWire | undefined;

/** The threads of this environment, started on first use. @throws {LoadError} see `loadAddon`. */
export function nativeWire(): NativeWire {
  if (wire === undefined) {
    const { Wire, availableCpus } = loadAddon<WireBinding>("tokengrad");
    wire = new Wire({ threads: availableCpus, pieceBytes: PIECE_BYTES });
  }
  return wire;
}
