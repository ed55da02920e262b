// Reads what advantages are computed from: numbers per sample in groups, and ragged rows of numbers per token.
import { readGroups } from "../../engine/layout.ts";
import { describe, InputError } from "../../errors.ts";
import { isNumberList, isRowList, type Row } from "../../rows/rows.ts";

/** Samples in each group, neighbours in the batch: one size for all, or a list of sizes. */
export type Groups = number | ArrayLike<number>;

/** Refuses what is no list of numbers, or one with a number that is not finite. NaN passes where `unknown` says so. */
export function readNumbers(path: string, given: unknown, length?: number, unknown?: "NaN"): number[] {
  if (!isNumberList(given)) throw new InputError(path, `expected a list of numbers, got ${describe(given)}`);
  if (length !== undefined && given.length !== length) {
    throw new InputError(path, `expected ${length} numbers, one per sample, got ${given.length}`);
  }
  return Array.from(given, (value: unknown, sample) => {
    if (typeof value === "number" && (Number.isFinite(value) || (unknown === "NaN" && Number.isNaN(value))))
      return value;
    throw new InputError(path, `expected a finite number, got ${describe(value)}`, { sample });
  });
}

/** The members of each group that have a reward, by their index. NaN is a reward that could not be found. */
export function scoredGroups(rewards: readonly number[], groups: Groups): number[][] {
  let start = 0;
  return Array.from(readGroups(groups, rewards.length), (size) => {
    const members = Array.from({ length: size }, (_, member) => start + member);
    start += size;
    return members.filter((sample) => !Number.isNaN(rewards[sample]));
  });
}

/** Refuses a value that is no list of rows, or whose rows differ in length from `like`. */
export function readRows(path: string, given: unknown, like?: readonly Row[]): readonly Row[] {
  if (!isRowList(given)) throw new InputError(path, `expected rows of numbers, got ${describe(given)}`);
  if (like !== undefined && given.length !== like.length) {
    throw new InputError(path, `expected ${like.length} rows, one per sample, got ${given.length}`);
  }
  for (const [sample, row] of given.entries()) {
    const length = like?.[sample]?.length;
    if (!isNumberList(row) || (length !== undefined && row.length !== length)) {
      const expected = length === undefined ? "a row of numbers" : `a row of ${length} numbers`;
      throw new InputError(path, `expected ${expected}, got ${describe(row)}`, { sample });
    }
  }
  return given;
}

/** Reads the number of a position, which must be finite. */
export function numberAt(path: string, rows: readonly Row[], sample: number, position: number): number {
  const value: unknown = rows[sample]![position];
  if (typeof value === "number" && Number.isFinite(value)) return value;
  throw new InputError(path, `expected a finite number, got ${describe(value)}`, { sample, position });
}

/** Whether each position counts: all do where there is no mask. */
export function readMask(mask: unknown, like: readonly Row[]): (sample: number, position: number) => boolean {
  if (mask === undefined) return () => true;
  const rows = readRows("mask", mask, like);
  return (sample, position) => numberAt("mask", rows, sample, position) > 0;
}
