// Checks of the options that losses take.
import { describe, InputError } from "../errors.ts";

/** Refuses a value that is no finite number within inclusive bounds. `path` is how the caller wrote it. */
export function checkNumber(
  path: string,
  value: unknown,
  bounds: { above?: number; min?: number; max?: number } = {},
): void {
  const { above = -Infinity, min = -Infinity, max = Infinity } = bounds;
  if (typeof value === "number" && Number.isFinite(value) && value > above && value >= min && value <= max)
    return;
  const limits = [
    above > -Infinity ? ` above ${above}` : "",
    min > -Infinity ? ` of at least ${min}` : "",
    max < Infinity ? ` of at most ${max}` : "",
  ].join("");
  throw new InputError(path, `expected a finite number${limits}, got ${describe(value)}`);
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
