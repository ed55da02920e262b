// Keeps long work on the event loop from holding it.
import { setImmediate } from "node:timers/promises";

/** Milliseconds after which long work lets others run. */
const SLICE_MS = 1;

/** Elements to handle between two looks at the clock. Longer work is cut into pieces of this size. */
export const PIECE = 16_384;

/** After each piece of long work: `if (pace.due(elements)) await pace.rest();`. */
export class Pace {
  #since = performance.now();
  #done = 0;

  /** Whether it is time to rest, now that so many more elements are done. */
  due(elements: number): boolean {
    this.#done += elements;
    if (this.#done < PIECE) return false;
    this.#done = 0;
    return performance.now() - this.#since > SLICE_MS;
  }

  async rest(): Promise<void> {
    await setImmediate();
    this.#since = performance.now();
  }
}
