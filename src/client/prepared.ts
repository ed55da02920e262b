// Samples that are checked and encoded ahead of the passes over them.
import { Pace } from "../pace.ts";
import type { Core } from "./core.ts";
import { disposedError, EncodedSamples } from "./encoded-samples.ts";
import { valuesOf, type WireFormat } from "./formats.ts";
import { CUSTOM } from "./loss.ts";
import { checkList, checkSample, checkSamples, type NumberRowName, type Sample } from "./sample.ts";
import { VALUE_BYTES } from "./submission.ts";

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

  /** Hands the memory of the text on to other bodies, unless a call still uses it. No call may follow. */
  [Symbol.dispose](): void {
    this.#encoded.end();
  }
}

/** Samples, or what `session.prepareSamples` made of them. */
export type SamplesLike = readonly Sample[] | PreparedSamples;

/** What the check of a sample takes, in elements of a `Pace`. */
const SAMPLE_ELEMENTS = 256;

/** Checks samples as a custom pass needs them, with pauses for the event loop. */
async function checkAll(samples: readonly Sample[]): Promise<void> {
  checkList(samples);
  const pace = new Pace();
  for (const [index, sample] of samples.entries()) {
    checkSample(sample, index, CUSTOM.rows);
    if (pace.due(SAMPLE_ELEMENTS)) await pace.rest();
  }
}

/** Begins to write samples in the format that their passes will try first. */
function begin(samples: readonly Sample[], format: WireFormat, keeps: boolean) {
  const prepared = new PreparedSamples(new EncodedSamples(samples, keeps));
  return { prepared, text: PreparedSamples.encodedOf(prepared).text(format, Infinity) };
}

export async function prepare(core: Core, samples: readonly Sample[]): Promise<PreparedSamples> {
  await checkAll(samples);
  const [format] = core.wireFormat.candidates(samples, CUSTOM);
  const { prepared, text } = begin(samples, format!, true);
  await text;
  return prepared;
}

/**
 * Runs `work` on prepared samples, which are begun to be written meanwhile. Those that it makes itself keep their text
 * from one pass to the next only if there is room.
 */
export async function withPrepared<T>(
  core: Core,
  given: SamplesLike,
  work: (prepared: PreparedSamples) => Promise<T>,
): Promise<T> {
  if (given instanceof PreparedSamples) {
    encodedSamples(given, CUSTOM.rows);
    return work(given);
  }
  await checkAll(given);
  const [format] = core.wireFormat.candidates(given, CUSTOM);
  const giveBack = core.budget.keep(VALUE_BYTES * valuesOf(given, CUSTOM));
  const { prepared } = begin(given, format!, giveBack !== undefined);
  try {
    return await work(prepared);
  } finally {
    prepared[Symbol.dispose]();
    giveBack?.();
  }
}

/** The samples of a pass that sends the given rows, checked. */
export function encodedSamples(given: SamplesLike, rows: readonly NumberRowName[]): EncodedSamples {
  if (!(given instanceof PreparedSamples)) {
    checkSamples(given, rows);
    return new EncodedSamples(given, false);
  }
  const encoded = PreparedSamples.encodedOf(given);
  if (encoded.ended) throw disposedError();
  if (rows.length > CUSTOM.rows.length) checkSamples(given.samples, rows);
  return encoded;
}
