// The gradients of one run: a single buffer, and a view of it per sample.
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
  /** All rows, one after the other. Belongs to the caller alone. */
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

  /** Whether rows with these offsets are just as long. */
  fits(offsets: Float64Array): boolean {
    return (
      offsets.length === this.#offsets.length && offsets.every((offset, i) => offset === this.#offsets[i])
    );
  }

  /** The row of sample `i`: a view of the buffer, as long as the sample's weights. */
  row(i: number): GradientRow<D> {
    const start = this.#offsets[i];
    const end = this.#offsets[i + 1];
    if (start === undefined || end === undefined) {
      throw new RangeError(`row: expected an index from 0 to ${this.rows - 1}, got ${i}`);
    }
    const View = ARRAYS[this.dtype];
    return new View(this.buffer, start * View.BYTES_PER_ELEMENT, end - start) as GradientRow<D>;
  }

  /** The rows in order. */
  *[Symbol.iterator](): IterableIterator<GradientRow<D>> {
    for (let i = 0; i < this.rows; i++) yield this.row(i);
  }
}
