// Rows as callers hold them, as arrays that can be written natively. What is no typed array is copied, once.
import { newMemory } from "../blocks.ts";
import { Pace, PIECE } from "../pace.ts";
import { type Place, wrongValue } from "./errors.ts";

const LARGEST_INT64 = 2n ** 63n - 1n;

/** Calls `copy` for pieces of a row, until it gives false. Throws the signal's reason when it fires. */
async function inPieces(
  length: number,
  signal: AbortSignal | undefined,
  copy: (begin: number, end: number) => boolean,
): Promise<boolean> {
  const pace = new Pace();
  for (let begin = 0; begin < length; begin += PIECE) {
    if (!copy(begin, Math.min(length, begin + PIECE))) return false;
    if (!pace.due(PIECE)) continue;
    await pace.rest();
    signal?.throwIfAborted();
  }
  return true;
}

/** Whether ids can be written as they are. */
export const isIds = (row: ArrayLike<unknown>): row is Int32Array | BigInt64Array =>
  row instanceof Int32Array || row instanceof BigInt64Array;

/** Whether numbers can be written as they are. */
export const isNumbers = (row: ArrayLike<unknown>): row is Float32Array | Float64Array =>
  row instanceof Float32Array || row instanceof Float64Array;

/**
 * Token ids: numbers up to 2^53 - 1, BigInts or decimal strings up to 2^63 - 1.
 *
 * @throws {InputError} naming sample and position. Negative ids in typed arrays are found when they are written.
 */
export async function idValues(
  row: ArrayLike<unknown>,
  place: Place,
  signal?: AbortSignal,
): Promise<Int32Array | BigInt64Array> {
  if (isIds(row)) return row;
  const small = new Int32Array(newMemory(4 * row.length));
  const fits = await inPieces(row.length, signal, (begin, end) => {
    for (let i = begin; i < end; i++) {
      const id = row[i];
      if (typeof id !== "number" || (id | 0) !== id || id < 0) return false;
      small[i] = id;
    }
    return true;
  });
  if (fits) return small;
  const large = new BigInt64Array(newMemory(8 * row.length));
  await inPieces(row.length, signal, (begin, end) => {
    for (let i = begin; i < end; i++) large[i] = exactId(row[i], place, i);
    return true;
  });
  return large;
}

function exactId(id: unknown, place: Place, position: number): bigint {
  if (typeof id === "number") {
    if (Number.isSafeInteger(id) && id >= 0) return BigInt(id);
    const expected = "an integer from 0 to 2^53 - 1 (larger ids as BigInt or decimal string)";
    throw wrongValue(place, position, expected, id);
  }
  const exact =
    typeof id === "bigint" ? id : typeof id === "string" && /^\d{1,19}$/.test(id) ? BigInt(id) : -1n;
  if (exact >= 0n && exact <= LARGEST_INT64) return exact;
  throw wrongValue(place, position, "an integer from 0 to 2^63 - 1", id);
}

/**
 * Numbers. Whether they are finite, or good as weights, is found when they are written.
 *
 * @throws {InputError} naming sample and position of the first that is no number.
 */
export async function numberValues(
  row: ArrayLike<unknown>,
  place: Place,
  signal?: AbortSignal,
): Promise<Float32Array | Float64Array> {
  if (isNumbers(row)) return row;
  const values = new Float64Array(newMemory(8 * row.length));
  await inPieces(row.length, signal, (begin, end) => {
    for (let i = begin; i < end; i++) {
      const value = row[i];
      if (typeof value !== "number") throw wrongValue(place, i, "a number", value);
      values[i] = value;
    }
    return true;
  });
  return values;
}
