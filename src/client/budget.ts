// Bounds the bytes of request bodies that are made or sent at one time, and of those kept for later, over all calls of a
// client.

import type { Call } from "./call.ts";

/** A share of the budget. */
export interface Share {
  /** Says what the body really has. @unit bytes */
  resize(bytes: number): void;
  release(): void;
}

interface Waiting {
  readonly bytes: number;
  readonly go: () => void;
}

export class ByteBudget {
  readonly #limit: number;
  #used = 0;
  #kept = 0;
  readonly #waiting: Waiting[] = [];

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Waits for room, in the order of the calls. A body larger than the whole budget goes alone, an empty one at once. */
  async take(bytes: number, call: Call): Promise<Share> {
    if (bytes > 0 && (this.#waiting.length > 0 || !this.#fits(bytes))) {
      await call.waitFor((go) => {
        const waiting = { bytes, go };
        this.#waiting.push(waiting);
        return () => {
          this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
          this.#admit();
        };
      });
    } else {
      this.#used += bytes;
    }
    let held = bytes;
    const resize = (to: number) => {
      this.#used += to - held;
      held = to;
      this.#admit();
    };
    return { resize, release: () => resize(0) };
  }

  /**
   * Room to keep a body for later, as much again as for those under way: who keeps one never holds up the others. Gives
   * what gives it back; undefined where there is none. A body larger than all of it is kept alone.
   */
  keep(bytes: number): (() => void) | undefined {
    if (this.#kept > 0 && this.#kept + bytes > this.#limit) return undefined;
    this.#kept += bytes;
    let held = bytes;
    return () => {
      this.#kept -= held;
      held = 0;
    };
  }

  #fits(bytes: number): boolean {
    return this.#used === 0 || this.#used + bytes <= this.#limit;
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined && this.#fits(next.bytes); next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#used += next.bytes;
      next.go();
    }
  }
}
