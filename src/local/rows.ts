// The long rows of a request: tokens, and numbers of a declared dtype, into typed arrays.
import { describe } from "../errors.ts";
import { array, type Read } from "./fields.ts";
import { invalid } from "./problem.ts";

const LARGEST_FLOAT32 = 3.4028234663852886e38;

/** Dtypes of the tensors of `loss_fn_inputs`. */
export const TENSOR_DTYPES = ["int64", "float32"] as const;

/** Dtypes of gradients, and of the tensors of `loss_inputs`. */
export const WIRE_DTYPES = [
  "D_TYPE_UNSPECIFIED",
  "D_TYPE_INT64",
  "D_TYPE_FLOAT32",
  "D_TYPE_BFLOAT16",
] as const;

export type Dtype = (typeof TENSOR_DTYPES)[number] | (typeof WIRE_DTYPES)[number];

/** Token ids below `vocabulary`, as numbers or, where `strings` allows it, as decimal digits. */
export function tokens(vocabulary: number, strings: boolean): Read<Int32Array> {
  return (value, path) => {
    const items = array(value, path);
    const row = new Int32Array(items.length);
    for (const [position, item] of items.entries()) {
      const token = strings && typeof item === "string" && /^\d{1,10}$/.test(item) ? Number(item) : item;
      if (!Number.isInteger(token) || (token as number) < 0 || (token as number) >= vocabulary) {
        throw invalid(
          `${path}[${position}]`,
          `expected a token id from 0 to ${vocabulary - 1}, got ${describe(item)}`,
        );
      }
      row[position] = token as number;
    }
    return row;
  };
}

/** Finite numbers, rounded to what `dtype` can hold. */
export function numbers(dtype: Dtype): Read<Float64Array> {
  return (value, path) => {
    const items = array(value, path);
    const row = new Float64Array(items.length);
    const whole = dtype === "int64" || dtype === "D_TYPE_INT64";
    for (const [position, item] of items.entries()) {
      if (typeof item !== "number" || !(Math.abs(item) <= LARGEST_FLOAT32)) {
        throw invalid(
          `${path}[${position}]`,
          `expected a finite number within float32's range, got ${describe(item)}`,
        );
      }
      if (whole && !Number.isInteger(item)) {
        throw invalid(`${path}[${position}]`, `expected a whole number, as ${dtype} says, got ${item}`);
      }
      row[position] = item;
    }
    const rounded = dtype === "D_TYPE_BFLOAT16" ? toBfloat16(row) : row.map(Math.fround);
    const overflow = rounded.findIndex((number) => !Number.isFinite(number));
    if (overflow >= 0) {
      throw invalid(
        `${path}[${overflow}]`,
        `expected a number within ${dtype}'s range, got ${row[overflow]}`,
      );
    }
    return rounded;
  };
}

/** Rounds to the nearest bfloat16, ties to even. */
function toBfloat16(row: Float64Array): Float64Array {
  const floats = Float32Array.from(row);
  const bits = new Uint32Array(floats.buffer);
  for (let i = 0; i < bits.length; i++) {
    bits[i] = (bits[i]! + 0x7fff + ((bits[i]! >>> 16) & 1)) & 0xffff0000;
  }
  return Float64Array.from(floats);
}

/** Rows laid end to end, and where each begins. */
export function join<T extends Int32Array | Float64Array>(rows: readonly T[], into: new (n: number) => T): T {
  const joined = new into(rows.reduce((total, row) => total + row.length, 0));
  let offset = 0;
  for (const row of rows) {
    joined.set(row, offset);
    offset += row.length;
  }
  return joined;
}

export function offsets(rows: readonly { readonly length: number }[]): Int32Array {
  const starts = new Int32Array(rows.length + 1);
  for (const [i, row] of rows.entries()) starts[i + 1] = starts[i]! + row.length;
  return starts;
}
