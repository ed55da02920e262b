// Writes rows of tokens and numbers as JSON arrays, checking every value on its way.

import { describe, InputError } from "../errors.ts";
import type { BodyWriter } from "./body.ts";
import { bfloat16Text, float32Text } from "./number-text.ts";
import type { NumberRow, TokenRow } from "./sample.ts";

/** Where a row stands, for error messages. */
export interface Place {
  readonly path: string;
  readonly sample: number;
}

/** A gradient where `weights` are 0 would be thrown away without a word. */
const IGNORED = "0, since the service ignores gradients where the weight is 0";
const LARGEST_FLOAT32 = 2 ** 128 - 2 ** 104;
const LARGEST_INT64 = 2n ** 63n - 1n;

function refuse({ path, sample }: Place, position: number, expected: string, value: unknown): never {
  throw new InputError(path, `expected ${expected}, got ${describe(value)}`, { sample, position });
}

/** Ids beyond 2^53 - 1 are written as strings where the field allows it, since many readers hold numbers as doubles. */
export function writeTokens(
  writer: BodyWriter,
  row: TokenRow,
  place: Place,
  largeIds: "as strings" | "as numbers",
): Promise<void> {
  const large = (digits: string) => (largeIds === "as strings" ? `"${digits}"` : digits);
  return writer.array(row.length, (position) => {
    const token: unknown = row[position];
    if (typeof token === "number") {
      if (Number.isSafeInteger(token) && token >= 0) return String(token);
      const expected = "an integer from 0 to 2^53 - 1 (larger ids as BigInt or decimal string)";
      return refuse(place, position, expected, token);
    }
    const exact = integerOf(token);
    if (exact === undefined || exact < 0n || exact > LARGEST_INT64) {
      return refuse(place, position, "an integer from 0 to 2^63 - 1", token);
    }
    return exact <= Number.MAX_SAFE_INTEGER ? String(exact) : large(String(exact));
  });
}

function integerOf(token: unknown): bigint | undefined {
  if (typeof token === "bigint") return token;
  return typeof token === "string" && /^\d{1,19}$/.test(token) ? BigInt(token) : undefined;
}

export function writeFloats(
  writer: BodyWriter,
  row: NumberRow,
  place: Place,
  weights?: NumberRow,
): Promise<void> {
  return writer.array(row.length, (position) => {
    const value: unknown = row[position];
    if (value !== 0 && weights?.[position] === 0) return refuse(place, position, IGNORED, value);
    if (typeof value !== "number" || !Number.isFinite(value)) {
      return refuse(place, position, "a finite number", value);
    }
    const rounded = Math.fround(value);
    if (Math.abs(rounded) > LARGEST_FLOAT32) {
      return refuse(place, position, "a number within float32's range", value);
    }
    return float32Text(rounded);
  });
}

export function writeWeights(writer: BodyWriter, row: NumberRow, place: Place): Promise<void> {
  return writer.array(row.length, (position) => {
    const value: unknown = row[position];
    if (value === 0) return "0";
    // A weight so small that it rounds to 0 would silently leave its position out.
    const rounded = typeof value === "number" ? Math.fround(value) : Number.NaN;
    if (!(rounded > 0 && rounded <= LARGEST_FLOAT32)) {
      return refuse(place, position, "0 or a positive float32", value);
    }
    return float32Text(rounded);
  });
}

/** `row` holds the bits of each bfloat16. */
export function writeBfloat16(
  writer: BodyWriter,
  row: NumberRow,
  place: Place,
  weights?: NumberRow,
): Promise<void> {
  return writer.array(row.length, (position) => {
    const bits = row[position]!;
    if ((bits & 0x7f80) === 0x7f80) {
      const value = bits & 0x7f ? Number.NaN : bits & 0x8000 ? -Infinity : Infinity;
      return refuse(place, position, "a finite number", value);
    }
    if ((bits & 0x7fff) !== 0 && weights?.[position] === 0) {
      return refuse(place, position, IGNORED, Number(bfloat16Text(bits)));
    }
    return bfloat16Text(bits);
  });
}
