// Refuses names of options and inputs that nobody knows.
import { InputError } from "./errors.ts";

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

/** Refuses keys that are not known, naming the nearest known one: a misspelt name must not be passed over. */
export function checkNames(path: string, given: object, known: readonly string[]): void {
  const unknown = Object.keys(given).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  const near = known
    .map((name) => ({ name, distance: distance(unknown.toLowerCase(), name.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance)[0];
  const hint =
    near !== undefined && near.distance <= Math.max(2, near.name.length / 3)
      ? `; did you mean ${near.name}?`
      : "";
  const expected = known.length === 0 ? "expected no names here" : `expected one of ${known.join(", ")}`;
  throw new InputError(`${path}.${unknown}`, `${expected}${hint}`);
}
