// The samples of one or more passes: where their trained positions lie, and their text, made once where it is kept.
import { AbortError, InputError } from "../errors.ts";
import { Pace } from "../pace.ts";
import { type IndexedRowLayout, readRowLayout } from "../rows/layout.ts";
import type { Items } from "./body.ts";
import type { CheckedSamples } from "./checked-samples.ts";
import { CallAbortedError } from "./errors.ts";
import { type WireFormat, writeSample } from "./formats.ts";
import { writeItems } from "./items.ts";
import { CUSTOM } from "./loss.ts";

/** Why texts are given up. An error would be made anew, with its stack, for each. */
const ENDED = "the samples are no longer needed";

/** Their rows must not change meanwhile. */
export class EncodedSamples {
  readonly checked: CheckedSamples;
  readonly #keeps: boolean;
  /** Texts that are kept, by format and length of rows. */
  readonly #texts = new Map<string, Promise<Items>>();
  readonly #ended = new AbortController();
  #users = 0;
  /** Whether no pass has failed: its last request may still hold its body. */
  #reusable = true;
  #layout: Promise<IndexedRowLayout> | undefined;

  /** Where texts are not kept, each pass makes its own. */
  constructor(checked: CheckedSamples, keeps: boolean) {
    this.checked = checked;
    this.#keeps = keeps;
  }

  get ended(): boolean {
    return this.#ended.signal.aborted;
  }

  /** Where the trained positions lie. */
  layout(): Promise<IndexedRowLayout> {
    this.#layout ??= readRowLayout(
      this.checked.weights,
      (sample) => `samples[${sample}].weights`,
      new Pace(),
    );
    return this.#layout;
  }

  /**
   * The samples as a custom pass sends them, each row cut to its first `longest` values; undefined where texts are not
   * kept.
   */
  text(format: WireFormat, longest: number): Promise<Items> | undefined {
    if (!this.#keeps) return undefined;
    const key = `${format} ${longest}`;
    const known = this.#texts.get(key);
    if (known !== undefined) return known;
    const text = writeItems(
      { from: 0, to: this.checked.samples.length },
      (writer, index) => writeSample(writer, this.checked, index, CUSTOM, format),
      this.#ended.signal,
      longest,
    );
    // Whoever waits for the text sees why there is none.
    text.catch(() => {});
    this.#texts.set(key, text);
    return text;
  }

  /** Runs a pass that sends the texts. */
  async use<T>(pass: () => Promise<T>): Promise<T> {
    this.#users++;
    try {
      return await pass();
    } catch (error) {
      this.#reusable = false;
      throw this.ended ? endedError(error) : error;
    } finally {
      this.#users--;
    }
  }

  /** Ends the keeping. Other bodies get the memory if no pass uses it. Settles when the rows are no longer read. */
  async end(): Promise<void> {
    this.#ended.abort(ENDED);
    const texts = [...this.#texts.values()];
    this.#texts.clear();
    const release = this.#users === 0 && this.#reusable;
    for (const text of await Promise.allSettled(texts)) {
      if (release && text.status === "fulfilled") text.value.release();
    }
  }
}

/** What a pass fails with that was still to write the samples. */
const endedError = (error: unknown) =>
  error instanceof AbortError && !(error instanceof CallAbortedError) ? disposedError() : error;

export const disposedError = () =>
  new InputError("samples", "expected prepared samples that are not disposed");
