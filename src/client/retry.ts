// When a failed request is sent again, and after how long.

import { describe, InputError } from "../errors.ts";
import { ApiError, IdempotencyConflictError } from "./api-errors.ts";
import { ConnectionError, ResponseError } from "./errors.ts";

export interface RetryOptions {
  /** Repeats of a request after its first attempt. */
  readonly maxRetries: number;
  /** Upper end of the first pause; it doubles from attempt to attempt. @unit milliseconds */
  readonly retryDelayMs: number;
}

/** The longest pause that the client chooses by itself. @unit milliseconds */
const LONGEST_PAUSE_MS = 10_000;
/** The longest pause that a server may ask for. @unit milliseconds */
const LONGEST_RETRY_AFTER_MS = 60_000;

const TRANSIENT_STATUSES: readonly number[] = [408, 409, 429];

/** Whether a later repeat of the same request may get another answer. */
export function isTransient(error: unknown): boolean {
  if (error instanceof ConnectionError) return true;
  if (error instanceof ResponseError) return error.garbled;
  if (!(error instanceof ApiError)) return false;
  if (error.shouldRetry !== undefined) return error.shouldRetry;
  if (error instanceof IdempotencyConflictError) return false;
  return error.status >= 500 || TRANSIENT_STATUSES.includes(error.status);
}

/** Whether the server may have done what the failed request asked for. */
export function mayHaveArrived(error: unknown): boolean {
  if (error instanceof ConnectionError) return error.mayHaveArrived;
  if (error instanceof ApiError) return error.status >= 500 || error.status === 408;
  return true;
}

/**
 * The pause before the next attempt: what the server asked for, else exponential with full jitter. `failures` counts
 * those so far, this one included. @unit milliseconds
 */
export function pauseAfter(error: unknown, failures: number, { retryDelayMs }: RetryOptions): number {
  if (error instanceof ApiError && error.retryAfterMs !== undefined) return error.retryAfterMs;
  return Math.random() * Math.min(LONGEST_PAUSE_MS, retryDelayMs * 2 ** Math.min(failures - 1, 20));
}

/**
 * What `retry-after-ms`, or `retry-after` as seconds or as an HTTP date, asks for; undefined where it is not within a
 * minute from now. @unit milliseconds
 */
export function retryAfter(ms: string | undefined, header: string | undefined): number | undefined {
  for (const asked of [number(ms), number(header, 1000), header && Date.parse(header) - Date.now()]) {
    if (typeof asked === "number" && asked > 0 && asked <= LONGEST_RETRY_AFTER_MS) return asked;
  }
  return undefined;
}

function number(text: string | undefined, unit = 1): number {
  return text !== undefined && /^\s*\d*\.?\d+\s*$/.test(text) ? Number(text) * unit : Number.NaN;
}

export function checkRetries(options: RetryOptions): RetryOptions {
  const { maxRetries, retryDelayMs } = options;
  if (!Number.isSafeInteger(maxRetries) || maxRetries < 0) {
    throw new InputError("maxRetries", `expected an integer of at least 0, got ${describe(maxRetries)}`);
  }
  if (!(Number.isFinite(retryDelayMs) && retryDelayMs > 0)) {
    throw new InputError("retryDelayMs", `expected milliseconds above 0, got ${describe(retryDelayMs)}`);
  }
  return options;
}
