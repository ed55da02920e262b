// The samples of one or more passes: where their trained positions lie, and their text, made once where it is kept.
import { Pace } from "../pace.ts";
import { type IndexedRowLayout, readRowLayout } from "../rows/layout.ts";
import type { Items } from "./body.ts";
import type { ByteBudget } from "./budget.ts";
import { type WireFormat, writeSample } from "./formats.ts";
import { writeItems } from "./items.ts";
import { CUSTOM } from "./loss.ts";
import type { Sample } from "./sample.ts";

/**
 * How long the text is kept: not at all, so that each pass makes its own; from one pass to the next where there is room
 * for it; or until the end.
 */
export type Keep = "no" | "while there is room" | "until the end";

/** Samples that were checked. Their rows must not change meanwhile. */
export class EncodedSamples {
  readonly samples: readonly Sample[];
  readonly #keep: Keep;
  readonly #texts = new Map<WireFormat, Promise<Items>>();
  readonly #ended = new AbortController();
  #layout: Promise<IndexedRowLayout> | undefined;
  /** Gives back the room that the text takes. */
  #giveBack: (() => void) | undefined;

  constructor(samples: readonly Sample[], keep: Keep) {
    this.samples = samples;
    this.#keep = keep;
  }

  get ended(): boolean {
    return this.#ended.signal.aborted;
  }

  /** Where the trained positions lie. */
  layout(): Promise<IndexedRowLayout> {
    this.#layout ??= readRowLayout(
      this.samples.map(({ weights }) => weights),
      (sample) => `samples[${sample}].weights`,
      new Pace(),
    );
    return this.#layout;
  }

  /** First position and length of each run of trained positions in one sample's row. */
  async runs(sample: number): Promise<Uint32Array> {
    const { runs, runOffsets } = await this.layout();
    return runs.subarray(2 * runOffsets[sample]!, 2 * runOffsets[sample + 1]!);
  }

  /** The samples as a custom pass sends them; undefined where the text is not kept. */
  text(format: WireFormat): Promise<Items> | undefined {
    if (this.#keep === "no") return undefined;
    const known = this.#texts.get(format);
    if (known !== undefined) return known;
    const { samples } = this;
    const text = writeItems(
      { from: 0, to: samples.length },
      (writer, index) => writeSample(writer, samples[index]!, index, CUSTOM, format),
      this.#ended.signal,
    );
    // Whoever waits for the text sees why there is none.
    text.catch(() => {});
    this.#texts.set(format, text);
    return text;
  }

  /** To be called when a pass has sent the text. */
  async sent(budget: ByteBudget): Promise<void> {
    if (this.#keep !== "while there is room" || this.#giveBack !== undefined) return;
    const texts = await Promise.all(this.#texts.values());
    const bytes = texts.reduce((sum, text) => sum + text.bytes, 0);
    this.#giveBack = budget.keep(bytes);
    if (this.#giveBack === undefined) this.#drop();
  }

  /** Ends the keeping. With `reuse` other bodies get the memory: only where nothing sends the text any more. */
  end(reuse: boolean): void {
    this.#ended.abort();
    if (reuse) this.#drop();
    this.#texts.clear();
    this.#giveBack?.();
  }

  /** Hands the memory on. */
  #drop(): void {
    for (const text of this.#texts.values()) {
      text.then(
        ({ release }) => release(),
        () => {},
      );
    }
    this.#texts.clear();
  }
}
