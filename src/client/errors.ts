// Errors of a call: stopped, out of time, without an answer, or with one that makes no sense.

import { AbortError, TokengradError } from "../errors.ts";

/** A request that failed and was waited out, or after which the call gave up. */
export interface Attempt {
  /** `METHOD url`, without the query of a storage address. */
  readonly request: string;
  /** When it ended, since the call began. @unit milliseconds */
  readonly atMs: number;
  /** HTTP status; undefined where no answer came. */
  readonly status: number | undefined;
  /** Whether the server may have done what it asked for. */
  readonly mayHaveArrived: boolean;
  /** Code and message of its error. */
  readonly code: string;
  readonly message: string;
  /** The pause that followed; undefined where the call gave up. @unit milliseconds */
  readonly pauseMs: number | undefined;
}

/** How far a call had come when it was stopped. */
export interface Progress {
  /** The operation that the server had accepted; it may still run there. */
  readonly operationId?: string | undefined;
  /** The key under which the operation was sent; the server may have accepted it. */
  readonly idempotencyKey?: string | undefined;
}

function progressText({ operationId, idempotencyKey }: Progress): string {
  if (operationId !== undefined) return `; operation ${operationId} may still run on the server`;
  if (idempotencyKey !== undefined) {
    return `; the server may have accepted it under idempotency key ${idempotencyKey}`;
  }
  return "";
}

/** A call was stopped by its signal. `name` is `AbortError`, code `ERR_ABORTED`, `cause` the signal's reason. */
export class CallAbortedError extends AbortError implements Progress {
  readonly operationId: string | undefined;
  readonly idempotencyKey: string | undefined;

  constructor(call: string, progress: Progress, cause: unknown) {
    super(`${call}: aborted${progressText(progress)}`, { cause });
    this.name = "AbortError";
    this.operationId = progress.operationId;
    this.idempotencyKey = progress.idempotencyKey;
  }
}

/** An error of a request or of the call around it. */
export class ClientError extends TokengradError {
  /** The attempts that failed before, latest last; of many, the last 50. */
  attempts: readonly Attempt[] = [];
  /** The key under which an operation was sent, where one was: repeating the same call with it applies nothing twice. */
  idempotencyKey: string | undefined;
}

interface Unfinished extends Progress {
  readonly failures: readonly Attempt[];
  readonly failureCount: number;
  readonly lastFailure: unknown;
}

/** A call had no result within its `timeoutMs`. `cause` is the last failure seen while waiting, if any. */
export class TimeoutError extends ClientError implements Progress {
  readonly operationId: string | undefined;

  constructor(call: string, timeoutMs: number, progress: Unfinished) {
    const { failures, failureCount, lastFailure } = progress;
    const last = failures.at(-1);
    const failed = last ? `; failed requests: ${failureCount}, the last: ${last.code}: ${last.message}` : "";
    super("ERR_TIMEOUT", `${call}: no result within ${timeoutMs} ms${progressText(progress)}${failed}`, {
      cause: lastFailure,
    });
    this.attempts = [...failures];
    this.operationId = progress.operationId;
    this.idempotencyKey = progress.idempotencyKey;
  }
}

/** No answer came: refused, reset, cut off in the middle, or not within the time for one request. */
export class ConnectionError extends ClientError {
  /** False where the request certainly never reached a server. */
  readonly mayHaveArrived: boolean;

  constructor(message: string, cause: unknown) {
    super("ERR_CONNECTION", message, { cause });
    this.mayHaveArrived = !NEVER_SENT.includes((cause as { code?: string } | undefined)?.code ?? "");
  }
}

const NEVER_SENT = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"];

/** The client was closed before or during the call. */
export class ClientClosedError extends ClientError {
  constructor() {
    super("ERR_CLIENT_CLOSED", "client: closed");
  }
}

interface ResponseErrorDetails {
  readonly cause?: unknown;
  readonly garbled?: boolean | undefined;
  readonly sample?: number | undefined;
  readonly position?: number | undefined;
}

/** An answer came that is not what the API promises: not JSON, cut off, or with a wrong or missing field. */
export class ResponseError extends ClientError {
  /** True where the answer was no JSON at all, as when it was cut off: asking again may help. */
  readonly garbled: boolean;
  /** Index of the sample in its batch, where a row of log-probabilities is wrong. */
  readonly sample: number | undefined;
  /** Index of the position in the sample's row of targets, where a single number is wrong. */
  readonly position: number | undefined;

  constructor(message: string, details: ResponseErrorDetails = {}, code = "ERR_RESPONSE") {
    super(code, message, details);
    this.garbled = details.garbled ?? false;
    this.sample = details.sample;
    this.position = details.position;
  }
}

/** An answer was larger than it may be, and was not read to its end. */
export class ResponseTooLargeError extends ResponseError {
  /** What it may have at most. @unit bytes */
  readonly limit: number;

  /** `why` is where the limit comes from. */
  constructor(limit: number, why: string, request: string) {
    const message = `answer: expected at most ${limit} bytes (${why}), got more (${request})`;
    super(message, {}, "ERR_RESPONSE_TOO_LARGE");
    this.limit = limit;
  }
}
