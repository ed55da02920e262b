// Objects that callers hand over to hold values by name: what can be one, and which of its names nobody knows.
import { describe, InputError } from "./errors.ts";

/** Whether a value can hold values by name. Lists, maps and promises cannot: they would seem to hold nothing. */
export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !(Symbol.iterator in value) && !(value instanceof Promise);

/** Letters to insert, drop or change to turn one word into the other. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(next[j - 1]! + 1, row[j]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length]!;
}

/** The one of some names that another was probably meant to be; undefined if none is near. */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  const [nearest] = known
    .map((candidate) => ({ candidate, far: distance(name.toLowerCase(), candidate.toLowerCase()) }))
    .sort((a, b) => a.far - b.far);
  const near = nearest !== undefined && nearest.far <= Math.max(2, nearest.candidate.length / 3);
  return near ? nearest.candidate : undefined;
}

/** What is wrong with an object of values by name: that it is none, or the first name that is not known. */
export function faultOfNames(
  given: unknown,
  known: readonly string[],
): { readonly name?: string; readonly problem: string } | undefined {
  if (!isRecord(given)) return { problem: `expected an object, got ${describe(given)}` };
  const name = Object.keys(given).find((key) => !known.includes(key));
  if (name === undefined) return undefined;
  const expected = known.length === 0 ? "expected no names here" : `expected one of ${known.join(", ")}`;
  const meant = nearestName(name, known);
  return { name, problem: meant === undefined ? expected : `${expected}; did you mean ${meant}?` };
}

/** Refuses what is no object of values by name. */
export function checkRecord(path: string, given: unknown): asserts given is object {
  if (!isRecord(given)) throw new InputError(path, `expected an object, got ${describe(given)}`);
}

/**
 * Refuses what is no object of values by name, and keys that are not known, naming the nearest known one: a misspelt name
 * must not be passed over.
 */
export function checkNames(path: string, given: unknown, known: readonly string[]): asserts given is object {
  const fault = faultOfNames(given, known);
  if (fault === undefined) return;
  throw new InputError(fault.name === undefined ? path : `${path}.${fault.name}`, fault.problem);
}
