// The gradients of one run: a single buffer, and a view of it per sample.
import { describe, InputError } from "../errors.ts";
import type { Dtype } from "./binding.ts";

interface RowTypes {
  float32: Float32Array;
  float64: Float64Array;
  /** The bits; `toFloat32` of `bfloat16.ts` gives the values. */
  bfloat16: Uint16Array;
}

/** Arrays of one sample's gradients by dtype. */
export type GradientRow<D extends Dtype> = RowTypes[D];

const ARRAYS = { float32: Float32Array, float64: Float64Array, bfloat16: Uint16Array } as const;

/** Bytes of one value. */
export const bytesOf = (dtype: Dtype): number => ARRAYS[dtype].BYTES_PER_ELEMENT;

/** d loss / d logprob for every position of every sample, in full rows; 0 where the weight is 0. */
export class Gradients<D extends Dtype = Dtype> {
  /** All rows, one after the other. Belongs to the caller alone; empty once a later run was given it as `into`. */
  readonly buffer: ArrayBuffer;
  readonly dtype: D;
  /** Number of rows: one per sample. */
  readonly rows: number;
  readonly #offsets: Float64Array;

  /** @param offsets First position of each row in the buffer, and one behind the last. */
  constructor(buffer: ArrayBuffer, dtype: D, offsets: Float64Array) {
    this.buffer = buffer;
    this.dtype = dtype;
    this.rows = offsets.length - 1;
    this.#offsets = offsets;
  }

  static offsetsOf(gradients: Gradients): Float64Array {
    return gradients.#offsets;
  }

  /** The row of sample `i`: a view of the buffer, as long as the sample's weights. */
  row(i: number): GradientRow<D> {
    const start = this.#offsets[i];
    const end = this.#offsets[i + 1];
    if (start === undefined || end === undefined) {
      throw new InputError("row", `expected an index from 0 to ${this.rows - 1}, got ${describe(i)}`);
    }
    const View = ARRAYS[this.dtype];
    if (this.buffer.byteLength < end * View.BYTES_PER_ELEMENT) {
      throw new InputError("gradients", "their memory was given to a later run as `into`, or transferred");
    }
    return new View(this.buffer, start * View.BYTES_PER_ELEMENT, end - start) as GradientRow<D>;
  }

  /** The rows in order. */
  *[Symbol.iterator](): IterableIterator<GradientRow<D>> {
    for (let i = 0; i < this.rows; i++) yield this.row(i);
  }
}

const bytesIn = ({ buffer, byteOffset, byteLength }: Float64Array) =>
  Buffer.from(buffer, byteOffset, byteLength);

/**
 * Takes the memory of gradients that are no longer needed, for rows with the given offsets. Whoever holds the old ones
 * sees no rows any more, so that nobody reads or moves what native code writes to.
 */
export function takeBuffer(gradients: Gradients, offsets: Float64Array): ArrayBuffer {
  const own = Gradients.offsetsOf(gradients);
  const fits = Buffer.compare(bytesIn(own), bytesIn(offsets)) === 0;
  const size = offsets.at(-1)! * bytesOf(gradients.dtype);
  if (!fits || gradients.buffer.byteLength !== size) {
    throw new InputError(
      "into",
      "expected gradients, not used up, with rows of the same lengths as the batch's",
    );
  }
  return structuredClone(gradients.buffer, { transfer: [gradients.buffer] });
}
