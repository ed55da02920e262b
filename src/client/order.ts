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
  /** Whether it has its turn. */
  running: boolean;
  go: () => void;
  /** Why it must not go: a change before it failed. */
  refused: NotSentError | undefined;
}

export interface Turn {
  /** Lets the next ones go. Calling it again does nothing. */
  done(): void;
}

export class SessionOrder {
  /** In the order of the calls; those that run come first. */
  readonly #entries: Entry[] = [];

  /**
   * Runs `work` in its turn. What was queued behind a change is not sent if the change fails before it says `done`.
   *
   * @throws {NotSentError} if a change before it failed.
   */
  async run<T>(effect: Effect, call: Call, work: (turn: Turn) => Promise<T>): Promise<T> {
    const entry: Entry = { name: call.name, effect, running: false, go: () => {}, refused: undefined };
    this.#entries.push(entry);
    this.#advance();
    let over = false;
    const done = () => {
      if (over) return;
      over = true;
      this.#remove(entry);
    };
    try {
      if (!entry.running) {
        await call.waitFor((go) => {
          entry.go = go;
          return () => {};
        });
      }
      if (entry.refused !== undefined) throw entry.refused;
      return await work({ done });
    } catch (error) {
      // What one waits for in vain, those behind it wait for in vain too; they have their own errors already.
      if (!over && effect === "changes") this.#refuseBehind(entry, error as Error);
      throw error;
    } finally {
      done();
    }
  }

  /** As if a change had failed in its turn: what is called behind it, before anybody can know, is not sent either. */
  fail(name: string, cause: Error): void {
    const entry: Entry = { name, effect: "changes", running: true, go: () => {}, refused: undefined };
    this.#entries.push(entry);
    queueMicrotask(() => {
      this.#refuseBehind(entry, cause);
      this.#remove(entry);
    });
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
