// One call of the client: its abort signal, its time limit, and how far it has come.

import { setMaxListeners } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { describe, InputError } from "../errors.ts";
import { checkNames } from "../names.ts";
import { type Attempt, CallAbortedError, type Progress, TimeoutError } from "./errors.ts";

/** Options that every call takes. */
export interface CallOptions {
  /** Stops the call: it rejects with an error named `AbortError` within 100 ms. */
  readonly signal?: AbortSignal | undefined;
  /** Time for the whole call, `Infinity` for no limit. @unit milliseconds */
  readonly timeoutMs?: number | undefined;
}

/** The longest delay that a timer of Node can hold, about 25 days; anything longer is no limit at all. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;
/** Failed attempts that are remembered; a server may be away for hours. */
export const REMEMBERED_ATTEMPTS = 50;

export class Call implements Progress {
  readonly name: string;
  /** Set when the request that starts an operation goes out. */
  idempotencyKey: string | undefined;
  /** Set when the server has accepted the operation. */
  operationId: string | undefined;
  /** The last failure that was waited out. */
  lastFailure: unknown;
  /** Requests that failed, latest last; the oldest are forgotten. */
  readonly failures: Attempt[] = [];
  /** How many failed in all. */
  failureCount = 0;
  readonly #began = performance.now();
  readonly #controller = new AbortController();
  readonly #user: AbortSignal | undefined;
  readonly #timeoutMs: number;
  readonly #timer: NodeJS.Timeout | undefined;
  readonly #abort = () => this.#controller.abort();
  #failure: Error | undefined;

  constructor(name: string, timeoutMs: number, signal: AbortSignal | undefined) {
    this.name = name;
    this.#user = signal;
    this.#timeoutMs = timeoutMs;
    // Every part of a call listens for its end; there may be many, and each lets go of it.
    setMaxListeners(0, this.#controller.signal);
    if (signal?.aborted) this.#abort();
    if (signal !== undefined) {
      // Any number of calls may share a signal, and each lets go of it at its end: nothing leaks, so nothing to warn of.
      setMaxListeners(0, signal);
      signal.addEventListener("abort", this.#abort, { once: true });
    }
    if (timeoutMs <= LONGEST_TIMER_MS) this.#timer = setTimeout(this.#abort, timeoutMs);
  }

  /** Fires on abort, when the time is up, and when a part of the call has failed. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Since the call began. @unit milliseconds */
  get elapsedMs(): number {
    return performance.now() - this.#began;
  }

  /** Until the time is up. @unit milliseconds */
  get remainingMs(): number {
    return this.#timeoutMs - this.elapsedMs;
  }

  /** Notes a failure that is waited out. */
  failed(attempt: Attempt, error: unknown): void {
    this.lastFailure = error;
    this.failureCount++;
    this.failures.push(attempt);
    if (this.failures.length > REMEMBERED_ATTEMPTS) this.failures.shift();
  }

  /** Ends what else is under way for the call, which has failed; `check` throws the error from then on. */
  fail(error: Error): void {
    if (this.signal.aborted) return;
    this.#failure = error;
    this.#abort();
  }

  /** Throws if the call was stopped or has failed. */
  check(): void {
    if (!this.signal.aborted) return;
    if (this.#failure !== undefined) throw this.#failure;
    if (this.#user?.aborted) throw new CallAbortedError(this.name, this, this.#user.reason);
    throw new TimeoutError(this.name, this.#timeoutMs, this);
  }

  /** Waits, or throws as soon as the call is stopped. @unit milliseconds */
  async pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.signal });
  }

  /** Waits until `begin` calls back; throws as soon as the call is stopped, after `begin`'s own undoing. */
  async waitFor(begin: (resolve: () => void) => () => void): Promise<void> {
    this.check();
    await new Promise<void>((resolve, reject) => {
      const stop = () => {
        giveUp();
        reject(this.signal.reason);
      };
      const giveUp = begin(() => {
        this.signal.removeEventListener("abort", stop);
        resolve();
      });
      this.signal.addEventListener("abort", stop, { once: true });
    });
  }

  /** What `work` gives; throws as soon as the call is stopped, while the work goes on. */
  async until<T>(work: Promise<T>): Promise<T> {
    // Of a call that is stopped already nobody waits for it.
    work.catch(() => {});
    await this.waitFor((go) => {
      work.then(go, go);
      return () => {};
    });
    return work;
  }

  /** Fires with the call's own signal, or when `limitMs` have passed; `end` must be called. @unit milliseconds */
  limited(limitMs: number): { readonly signal: AbortSignal; readonly end: () => void } {
    const controller = new AbortController();
    const abort = () => controller.abort();
    if (this.signal.aborted) abort();
    this.signal.addEventListener("abort", abort, { once: true });
    const timer = limitMs <= LONGEST_TIMER_MS ? setTimeout(abort, limitMs) : undefined;
    const end = () => {
      clearTimeout(timer);
      this.signal.removeEventListener("abort", abort);
    };
    return { signal: controller.signal, end };
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#user?.removeEventListener("abort", this.#abort);
  }
}

export function checkTimeout(path: string, timeoutMs: number): number {
  if (typeof timeoutMs === "number" && timeoutMs > 0) return timeoutMs;
  throw new InputError(path, `expected milliseconds above 0 or Infinity, got ${describe(timeoutMs)}`);
}

/**
 * Runs `work` under a time limit and a signal. Whatever a stopped call fails with, the caller sees why it stopped.
 * `names` are those that the options may have besides their own.
 */
export async function runCall<T>(
  name: string,
  options: CallOptions,
  defaultTimeoutMs: number,
  work: (call: Call) => Promise<T>,
  names: readonly string[] = [],
): Promise<T> {
  checkNames(name, options, ["signal", "timeoutMs", ...names]);
  const timeoutMs = checkTimeout(`${name}.timeoutMs`, options.timeoutMs ?? defaultTimeoutMs);
  const call = new Call(name, timeoutMs, options.signal);
  try {
    call.check();
    return await work(call);
  } catch (error) {
    call.check();
    throw error;
  } finally {
    call.end();
  }
}
