// Checks of the options that losses take.
import { describe, InputError } from "../errors.ts";

/** Refuses a value that is no finite number within bounds. `path` is how the caller wrote it. */
export function checkNumber(
  path: string,
  value: unknown,
  bounds: { above?: number; min?: number; max?: number; below?: number } = {},
): asserts value is number {
  const { above = -Infinity, min = -Infinity, max = Infinity, below = Infinity } = bounds;
  const isNumber = typeof value === "number" && Number.isFinite(value);
  if (isNumber && value > above && value >= min && value <= max && value < below) return;
  const limits = [
    above > -Infinity ? ` above ${above}` : "",
    min > -Infinity ? ` of at least ${min}` : "",
    max < Infinity ? ` of at most ${max}` : "",
    below < Infinity ? ` below ${below}` : "",
  ].filter((limit) => limit !== "");
  throw new InputError(path, `expected a finite number${limits.join(" and")}, got ${describe(value)}`);
}

/** Refuses a value that is no whole number of at least `min`. */
export function checkWhole(path: string, value: unknown, min: number): asserts value is number {
  if (Number.isSafeInteger(value) && (value as number) >= min) return;
  throw new InputError(path, `expected a whole number of at least ${min}, got ${describe(value)}`);
}

/** Refuses a value that is not one of some names. */
export function checkChoice<T extends string>(
  path: string,
  value: unknown,
  choices: readonly T[],
): asserts value is T {
  if (choices.includes(value as T)) return;
  throw new InputError(
    path,
    `expected ${choices.map((name) => `"${name}"`).join(", ")}, got ${describe(value)}`,
  );
}

/** Refuses a value that is neither true nor false. */
export function checkFlag(path: string, value: unknown): asserts value is boolean {
  if (typeof value !== "boolean")
    throw new InputError(path, `expected true or false, got ${describe(value)}`);
}
