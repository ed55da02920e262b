// The order in which operations of one session go out.

import type { Call } from "./call.ts";
import { NotSentError } from "./operation-errors.ts";

/**
 * `changes` go out one after the other, each when the server has accepted the one before it; `reads` between two changes
 * go out side by side.
 */
export type Effect = "changes" | "reads";

interface Entry {
  readonly name: string;
  readonly effect: Effect;
  /** Whether it has its turn, or is refused. */
  running: boolean;
  go: () => void;
  /** Why it must not go: a change before it failed. */
  refused: NotSentError | undefined;
}

export interface Turn {
  /**
   * Waits for it.
   *
   * @throws {NotSentError} if a change before it failed.
   */
  come(call: Call): Promise<void>;
  /** Lets the next ones go. Calling it again does nothing. */
  done(): void;
}

export class SessionOrder {
  /** In the order of the calls; those that run come first. */
  readonly #entries: Entry[] = [];

  /**
   * Runs `work`, whose place in the order is taken at once. What is queued behind a change is not sent if the change fails
   * before it says `done`.
   */
  async run<T>(effect: Effect, name: string, work: (turn: Turn) => Promise<T>): Promise<T> {
    const entry: Entry = { name, effect, running: false, go: () => {}, refused: undefined };
    this.#entries.push(entry);
    this.#advance();
    let over = false;
    const done = () => {
      if (over) return;
      over = true;
      this.#remove(entry);
    };
    try {
      return await work({ come: (call) => come(entry, call), done });
    } catch (error) {
      // What one waits for in vain, those behind it wait for in vain too; they have their own errors already.
      if (!over && effect === "changes") this.#refuseBehind(entry, error as Error);
      throw error;
    } finally {
      done();
    }
  }

  #remove(entry: Entry): void {
    this.#entries.splice(this.#entries.indexOf(entry), 1);
    this.#advance();
  }

  #refuseBehind(failed: Entry, cause: Error): void {
    for (const entry of this.#entries.slice(this.#entries.indexOf(failed) + 1)) {
      if (entry.running) continue;
      entry.refused = new NotSentError(entry.name, failed.name, cause);
      entry.running = true;
      entry.go();
    }
  }

  #advance(): void {
    for (const [index, entry] of this.#entries.entries()) {
      if (entry.effect === "changes" && index > 0) return;
      if (!entry.running) {
        entry.running = true;
        entry.go();
      }
      if (entry.effect === "changes") return;
    }
  }
}

async function come(entry: Entry, call: Call): Promise<void> {
  if (!entry.running) {
    await call.waitFor((go) => {
      entry.go = go;
      return () => {};
    });
  }
  if (entry.refused !== undefined) throw entry.refused;
}
