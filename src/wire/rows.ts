// Rows of a text, and the errors that name their values.
import { describe, InputError } from "../errors.ts";
import type { NativeRow } from "./binding.ts";

/** A row, and where it stands for error messages. */
export interface TextRow extends NativeRow {
  /** As in `samples[3].weights`. */
  readonly path: string;
  readonly sample: number;
  /** What to expect outside of the runs, and why, where others than `0` are refused. Default `0 outside of the runs`. */
  readonly outside?: string;
}

const EXPECTED = {
  number: "a finite number within float32's range",
  weight: "0 or a positive float32",
  id: "an integer from 0 to 2^63 - 1",
  quotedId: "an integer from 0 to 2^63 - 1",
} as const;

/** The error for the value of a position that cannot be written. */
export function refusal(row: TextRow, position: number): InputError {
  const { path, sample, rule, values, runs, length, outside = "0 outside of the runs" } = row;
  const inRuns = runs && packedIndex(runs, position);
  const value = valueAt(values, length === undefined ? position : inRuns!);
  const expected = runs !== undefined && inRuns === undefined ? outside : EXPECTED[rule];
  return new InputError(path, `expected ${expected}, got ${describe(value)}`, { sample, position });
}

/** The place of a position's value among those of the runs; none outside of them. */
function packedIndex(runs: Uint32Array, position: number): number | undefined {
  let before = 0;
  for (let i = 0; i < runs.length; i += 2) {
    const within = position - runs[i]!;
    if (within < 0) return undefined;
    if (within < runs[i + 1]!) return before + within;
    before += runs[i + 1]!;
  }
  return undefined;
}

function valueAt(values: NativeRow["values"], index: number): number | bigint {
  const value = values[index]!;
  if (!(values instanceof Uint16Array)) return value;
  return new Float32Array(Uint32Array.of((value as number) * 0x10000).buffer)[0]!;
}
