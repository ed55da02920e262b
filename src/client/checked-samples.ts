// The checks of samples' shape, and what is found out on the way.

import { describe, InputError } from "../errors.ts";
import { Pace } from "../pace.ts";
import {
  checkTokens,
  isRow,
  type NumberRow,
  type NumberRowName,
  type RoutedExperts,
  type Sample,
} from "./sample.ts";

/** Samples that were checked, in a list of their own, and what every pass needs of all of them: there may be many. */
export interface CheckedSamples {
  readonly samples: readonly Sample[];
  /** Positions of each. */
  readonly lengths: readonly number[];
  /** Positions of all samples. */
  readonly positions: number;
  /** Weights of each. */
  readonly weights: readonly NumberRow[];
  /** The first sample whose routing is given in this way alone, by either way. */
  readonly routedBy: Readonly<Partial<Record<Routing, number>>>;
}

export type Routing = "routedExperts" | "routedExpertsKey";

/** What the check of a sample takes, in elements of a `Pace`. */
const SAMPLE_ELEMENTS = 256;

/**
 * Checks that every sample has the rows asked for, all of one length. Values are checked where they are written.
 *
 * @throws {InputError} naming the sample.
 */
export async function checkSamples(
  samples: readonly Sample[],
  rows: readonly NumberRowName[],
  signal: AbortSignal | undefined,
): Promise<CheckedSamples> {
  if (!Array.isArray(samples)) throw new InputError("samples", `expected an array, got ${describe(samples)}`);
  if (samples.length === 0) throw new InputError("samples", "expected at least one sample, got none");
  const pace = new Pace();
  const checked: Sample[] = [];
  const lengths: number[] = [];
  const weights: NumberRow[] = [];
  const routedBy: Partial<Record<Routing, number>> = {};
  let positions = 0;
  for (let index = 0; index < samples.length; index++) {
    const sample: Sample = samples[index];
    checkSample(sample, index, rows);
    checked.push(sample);
    weights.push(sample.weights);
    lengths.push(sample.tokens.length);
    positions += sample.tokens.length;
    const { routedExperts: inline, routedExpertsKey: key } = sample;
    if ((inline === undefined) !== (key === undefined)) {
      routedBy[inline === undefined ? "routedExpertsKey" : "routedExperts"] ??= index;
    }
    if (pace.due(SAMPLE_ELEMENTS)) {
      await pace.rest();
      signal?.throwIfAborted();
    }
  }
  signal?.throwIfAborted();
  return { samples: checked, lengths, positions, weights, routedBy };
}

function checkSample(sample: Sample, index: number, rows: readonly NumberRowName[]): void {
  checkTokens(() => `samples[${index}].tokens`, sample?.tokens, { sample: index });
  const { length } = sample.tokens;
  checkRow(sample, index, "targets", length);
  for (const name of rows) checkRow(sample, index, name, length);
  if (sample.routedExperts !== undefined) checkRoutedExperts(sample.routedExperts, index);
}

function checkRow(sample: Sample, index: number, name: "targets" | NumberRowName, length: number): void {
  const row: unknown = sample[name];
  if (isRow(row) && row.length === length) return;
  const problem = isRow(row)
    ? `expected ${length} values, as many as tokens, got ${row.length}`
    : `expected an array, got ${describe(row)}`;
  throw new InputError(`samples[${index}].${name}`, problem, { sample: index });
}

function checkRoutedExperts(given: RoutedExperts, sample: number): void {
  const path = `samples[${sample}].routedExperts`;
  if (typeof given !== "object" || given === null) {
    throw new InputError(path, `expected an object with \`data\` and \`shape\`, got ${describe(given)}`, {
      sample,
    });
  }
  const { data, shape } = given;
  if (!(data instanceof Uint16Array)) {
    throw new InputError(`${path}.data`, `expected a Uint16Array, got ${describe(data)}`, { sample });
  }
  if (!Array.isArray(shape) || shape.length !== 3 || !shape.every((n) => Number.isSafeInteger(n) && n > 0)) {
    throw new InputError(`${path}.shape`, `expected [tokens, layers, k], got ${describe(shape)}`, {
      sample,
    });
  }
  const expected = shape.reduce((product, n) => product * n, 1);
  if (data.length !== expected) {
    const problem = `expected ${expected} values for shape [${shape.join(", ")}], got ${data.length}`;
    throw new InputError(`${path}.data`, problem, { sample });
  }
}
