// Rows of numbers that a caller brings: which values can be one, and what else is called.
import { describe, InputError } from "../errors.ts";

/** Numbers of one sample: one per position of its full row. */
export type Row = ArrayLike<number>;

/** Whether a value can hold numbers by index: a typed array or a plain one. Strings and bigint arrays cannot. */
export const isNumberList = (value: unknown): value is ArrayLike<number> =>
  Array.isArray(value) ||
  (ArrayBuffer.isView(value) &&
    !(value instanceof DataView || value instanceof BigInt64Array || value instanceof BigUint64Array));

/** Whether a value is a list of rows rather than of numbers. */
export const isRowList = (value: unknown): value is readonly Row[] =>
  Array.isArray(value) && typeof value[0] === "object" && value[0] !== null;

/** The error for something else where a number that the batch can hold belongs. */
export function notANumber(
  path: string,
  sample: number | undefined,
  index: number,
  value: unknown,
): InputError {
  const expected = isNumberList(value)
    ? "one number per target position (candidates of one position are samples of a group)"
    : Number.isFinite(value)
      ? "a number within float32's range"
      : "a finite number";
  const problem = `expected ${expected}, got ${describe(value)}`;
  return sample === undefined
    ? new InputError(`${path}[${index}]`, problem)
    : new InputError(path, problem, { sample, position: index });
}
