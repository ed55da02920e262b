// Samples that a caller has checked and encoded ahead of the passes over them.
import { InputError } from "../errors.ts";
import { Pace } from "../pace.ts";
import { EncodedSamples, type Keep } from "./encoded-samples.ts";
import { CUSTOM } from "./loss.ts";
import { checkList, checkSample, checkSamples, type NumberRowName, type Sample } from "./sample.ts";

/**
 * Samples as a scoring pass by `cross_entropy` and a custom pass send them. Their rows must not change as long as this is
 * used.
 */
export class PreparedSamples implements Disposable {
  readonly samples: readonly Sample[];
  readonly #encoded: EncodedSamples;

  /** Made by `session.prepareSamples`. */
  constructor(encoded: EncodedSamples) {
    this.samples = encoded.samples;
    this.#encoded = encoded;
  }

  static encodedOf(prepared: PreparedSamples): EncodedSamples {
    return prepared.#encoded;
  }

  /** Hands the memory of the text on to other bodies. No call may be under way with these samples, nor follow. */
  [Symbol.dispose](): void {
    this.#encoded.end(true);
  }
}

/** Samples, or what `session.prepareSamples` made of them. */
export type SamplesLike = readonly Sample[] | PreparedSamples;

/** What the check of a sample takes, in elements of a `Pace`. */
const SAMPLE_ELEMENTS = 256;

/** Checks the samples of a custom step, with pauses for the event loop. */
export async function prepare(given: SamplesLike, keep: Keep): Promise<PreparedSamples> {
  if (given instanceof PreparedSamples) {
    encodedSamples(given, CUSTOM.rows);
    return given;
  }
  checkList(given);
  const pace = new Pace();
  for (const [index, sample] of given.entries()) {
    checkSample(sample, index, CUSTOM.rows);
    if (pace.due(SAMPLE_ELEMENTS)) await pace.rest();
  }
  return new PreparedSamples(new EncodedSamples(given, keep));
}

/** The samples of a pass that sends the given rows, checked. */
export function encodedSamples(given: SamplesLike, rows: readonly NumberRowName[]): EncodedSamples {
  if (!(given instanceof PreparedSamples)) {
    checkSamples(given, rows);
    return new EncodedSamples(given, "no");
  }
  const encoded = PreparedSamples.encodedOf(given);
  if (encoded.ended) throw new InputError("samples", "expected prepared samples that are not disposed");
  if (rows.length > CUSTOM.rows.length) checkSamples(given.samples, rows);
  return encoded;
}
