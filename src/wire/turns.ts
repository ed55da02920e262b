// Long loops on the JavaScript thread, in turns.
import { setImmediate as nextTurn } from "node:timers/promises";

/** How long a turn may last. @unit milliseconds */
const TURN_MS = 2;

/** Gives the event loop back whenever a turn has lasted long enough. */
export class Turns {
  #began = performance.now();

  /** Whether it is time for `next`. */
  get over(): boolean {
    return performance.now() - this.#began > TURN_MS;
  }

  /** Settles in the next turn. */
  async next(): Promise<void> {
    await nextTurn();
    this.#began = performance.now();
  }
}
