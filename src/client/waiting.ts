// Waits until what was created is ready, says how far it is, and stops it where that fails.

import { TokengradError } from "../errors.ts";
import { type Call, type CallOptions, runCall } from "./call.ts";
import type { Core } from "./core.ts";
import type { StatusError } from "./results.ts";

/** How far the start of a resource or a session is. `String(progress)` is a line to print. */
export class StartProgress {
  readonly what: "model resources" | "session";
  readonly id: string;
  readonly status: string;
  /** Place in the queue, where the service tells one. */
  readonly queuePosition: number | undefined;
  /** Since the call began. @unit milliseconds */
  readonly elapsedMs: number;

  constructor(what: StartProgress["what"], found: Found, elapsedMs: number) {
    this.what = what;
    this.id = found.id;
    this.status = found.status;
    this.queuePosition = found.queuePosition;
    this.elapsedMs = elapsedMs;
  }

  toString(): string {
    const place = this.queuePosition === undefined ? "" : `, place ${this.queuePosition} in the queue`;
    return `${this.what} ${this.id}: ${this.status}${place}, ${Math.round(this.elapsedMs / 1000)} s`;
  }
}

/** Options of a call that waits until something is ready. */
export interface StartOptions extends CallOptions {
  /** Called at every look at the state. */
  readonly onProgress?: ((progress: StartProgress) => void) | undefined;
}

/** What was being started ended in another state. Code `ERR_START`; it was stopped where it could be. */
export class StartError extends TokengradError {
  readonly id: string;
  readonly status: string;
  /** Why, as the service says. */
  readonly reason: StatusError | undefined;

  constructor(what: string, found: Found) {
    const { code, message } = found.error ?? {};
    const why = [code, message].filter(Boolean).join(": ");
    super("ERR_START", `${what} ${found.id}: became ${found.status}${why ? `: ${why}` : ""}`);
    this.id = found.id;
    this.status = found.status;
    this.reason = found.error;
  }
}

interface Found {
  readonly id: string;
  readonly status: string;
  readonly queuePosition?: number | undefined;
  readonly error: StatusError | undefined;
}

/** How one kind of thing is started. */
export interface Start<T extends Found> {
  readonly what: StartProgress["what"];
  readonly ready: string;
  /** States from which it still may become ready. */
  readonly onTheWay: readonly string[];
  readonly create: (call: Call) => Promise<T>;
  readonly look: (id: string, call: Call) => Promise<T>;
  readonly stop: (id: string) => Promise<unknown>;
}

const FIRST_PAUSE_MS = 250;
const PAUSE_GROWTH = 1.5;
const LONGEST_PAUSE_MS = 10_000;

/**
 * Creates something and waits until it is ready; stops it where anything goes wrong after its creation.
 *
 * @throws {StartError} if it ends in another state.
 */
export async function startAndWait<T extends Found>(
  core: Core,
  name: string,
  options: StartOptions,
  defaultTimeoutMs: number,
  start: Start<T>,
): Promise<T> {
  let created: T | undefined;
  try {
    const run = async (call: Call) => {
      created = await start.create(call);
      let found = created;
      for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * PAUSE_GROWTH, LONGEST_PAUSE_MS)) {
        const progress = new StartProgress(start.what, found, call.elapsedMs);
        core.observer.progress(String(progress), { ...progress });
        options.onProgress?.(progress);
        if (found.status === start.ready) return found;
        if (!start.onTheWay.includes(found.status)) throw new StartError(start.what, found);
        await call.pause(pauseMs);
        found = await start.look(found.id, call);
      }
    };
    return await runCall(name, options, defaultTimeoutMs, run, ["onProgress"]);
  } catch (error) {
    if (created !== undefined) await stopAfter(error as Error, start, created.id);
    throw error;
  }
}

/** The first failure is the one to report; that something is left running must be said with it. */
async function stopAfter<T extends Found>(error: Error, start: Start<T>, id: string): Promise<void> {
  try {
    await start.stop(id);
  } catch (failure) {
    error.message += `; ${start.what} ${id} could not be stopped and may still run: ${(failure as Error).message}`;
  }
}
