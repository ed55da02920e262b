// Gradients as the caller holds them: rows of float32 numbers or of bfloat16 bits.

import { describe, InputError } from "../errors.ts";
import { isRow, type NumberRow, type Sample } from "./sample.ts";

/** d loss / d logprob of a batch, one row per sample, in the samples' order. */
export interface Gradients {
  readonly dtype: "float32" | "bfloat16";
  /** Number of rows. */
  readonly rows: number;
  /** Row of one sample, one value per target position: numbers, or for `bfloat16` the 16 bits of each. */
  row(sample: number): NumberRow;
}

/** Gradients, or plain rows of float32 numbers. */
export type GradientsLike = Gradients | readonly NumberRow[];

/** Checks type and number of rows. Each row is checked by `gradientRow`, its values where they are written. */
export function checkGradients(given: GradientsLike, samples: readonly Sample[]): Gradients {
  const gradients = fromRows(given);
  if (gradients.dtype !== "float32" && gradients.dtype !== "bfloat16") {
    throw new InputError(
      "gradients.dtype",
      `expected "float32" or "bfloat16", got ${describe(gradients.dtype)}`,
    );
  }
  if (gradients.rows !== samples.length) {
    throw new InputError(
      "gradients",
      `expected ${samples.length} rows, one per sample, got ${gradients.rows}`,
    );
  }
  return gradients;
}

/** The row of one sample, with a value for each target. */
export function gradientRow(gradients: Gradients, sample: number, { targets }: Sample): NumberRow {
  const path = `gradients[${sample}]`;
  const row: unknown = gradients.row(sample);
  if (!isRow(row)) throw new InputError(path, `expected an array, got ${describe(row)}`, { sample });
  if (gradients.dtype === "bfloat16" && !(row instanceof Uint16Array)) {
    throw new InputError(path, "expected a Uint16Array of bfloat16 bits", { sample });
  }
  if (row.length !== targets.length) {
    const problem = `expected ${targets.length} values, as many as targets, got ${row.length}`;
    throw new InputError(path, problem, { sample });
  }
  return row as NumberRow;
}

function fromRows(given: GradientsLike): Gradients {
  if (Array.isArray(given)) return { dtype: "float32", rows: given.length, row: (sample) => given[sample] };
  if (typeof (given as Gradients | undefined)?.row === "function") return given as Gradients;
  throw new InputError(
    "gradients",
    `expected rows of numbers or an object with \`row\`, got ${describe(given)}`,
  );
}
