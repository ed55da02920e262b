// Samples that are checked and encoded ahead of the passes over them.

import { type CheckedSamples, checkSamples } from "./checked-samples.ts";
import type { Core } from "./core.ts";
import { disposedError, EncodedSamples } from "./encoded-samples.ts";
import { CUSTOM, type LossPlan } from "./loss.ts";
import type { Sample } from "./sample.ts";
import { VALUE_BYTES } from "./submission.ts";

/**
 * Samples as a scoring pass by `cross_entropy` and a custom pass send them. Their rows must not change as long as this is
 * used.
 */
export class PreparedSamples implements Disposable {
  readonly samples: readonly Sample[];
  readonly #encoded: EncodedSamples;

  /** Made by `session.prepareSamples`. */
  constructor(samples: readonly Sample[], encoded: EncodedSamples) {
    this.samples = samples;
    this.#encoded = encoded;
  }

  static encodedOf(prepared: PreparedSamples): EncodedSamples {
    return prepared.#encoded;
  }

  /**
   * Hands the memory of the text on to other bodies, unless a call is still sending it. No call may follow, and one that
   * waits for its turn fails.
   */
  [Symbol.dispose](): void {
    this.#encoded.end();
  }
}

/** Samples, or what `session.prepareSamples` made of them. */
export type SamplesLike = readonly Sample[] | PreparedSamples;

/** Prepares samples ahead of their passes: settles when they are written. */
export async function prepare(
  core: Core,
  samples: readonly Sample[],
  signal: AbortSignal,
): Promise<PreparedSamples> {
  const checked = await checkSamples(samples, CUSTOM.rows, signal);
  const { prepared, text } = begin(core, samples, checked, true);
  const stop = () => prepared[Symbol.dispose]();
  signal.addEventListener("abort", stop, { once: true });
  try {
    await text;
    return prepared;
  } catch (error) {
    stop();
    throw error;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/**
 * Runs `work` on prepared samples, which are begun to be written meanwhile. Those that it makes itself keep their text
 * from one pass to the next only if there is room.
 */
export async function withPrepared<T>(
  core: Core,
  given: SamplesLike,
  signal: AbortSignal | undefined,
  work: (prepared: PreparedSamples) => Promise<T>,
): Promise<T> {
  if (given instanceof PreparedSamples) {
    await encodedSamples(given, CUSTOM, signal);
    return work(given);
  }
  const checked = await checkSamples(given, CUSTOM.rows, signal);
  const giveBack = core.budget.keep(VALUE_BYTES * valuesOf(checked, CUSTOM));
  try {
    const { prepared, encoded } = begin(core, given, checked, giveBack !== undefined);
    try {
      return await work(prepared);
    } finally {
      // The rows are the caller's again.
      await encoded.end();
    }
  } finally {
    giveBack?.();
  }
}

/** Begins to write samples in the format that their passes will try first. */
function begin(core: Core, samples: readonly Sample[], checked: CheckedSamples, keeps: boolean) {
  const [format] = core.wireFormat.candidates(checked, CUSTOM);
  const encoded = new EncodedSamples(checked, keeps);
  return { prepared: new PreparedSamples(samples, encoded), encoded, text: encoded.text(format!, Infinity) };
}

/** The samples of a pass, checked. */
export async function encodedSamples(
  given: SamplesLike,
  plan: LossPlan,
  signal: AbortSignal | undefined,
): Promise<EncodedSamples> {
  if (!(given instanceof PreparedSamples)) {
    return new EncodedSamples(await checkSamples(given, plan.rows, signal), false);
  }
  const encoded = PreparedSamples.encodedOf(given);
  if (encoded.ended) throw disposedError();
  if (!plan.asCustom) await checkSamples(given.samples, plan.rows, signal);
  return encoded;
}

/** Numbers that samples send, about. */
export const valuesOf = ({ positions }: CheckedSamples, { rows }: LossPlan): number =>
  positions * (rows.length + 2);

/** How many samples there are, if they are what they should be. */
export const countOf = (given: SamplesLike): number =>
  given instanceof PreparedSamples ? given.samples.length : Array.isArray(given) ? given.length : 0;
