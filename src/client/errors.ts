// Errors of the client: one class per way a call can fail, each with a stable code.

import { AbortError, TokengradError } from "../errors.ts";

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

/** A call had no result within its `timeoutMs`. `cause` is the last failure seen while waiting, if any. */
export class TimeoutError extends TokengradError implements Progress {
  readonly operationId: string | undefined;
  readonly idempotencyKey: string | undefined;

  constructor(call: string, timeoutMs: number, progress: Progress, cause: unknown) {
    super("ERR_TIMEOUT", `${call}: no result within ${timeoutMs} ms${progressText(progress)}`, { cause });
    this.operationId = progress.operationId;
    this.idempotencyKey = progress.idempotencyKey;
  }
}

/** No answer came: refused, reset, or cut off in the middle. */
export class ConnectionError extends TokengradError {
  constructor(message: string, cause: unknown) {
    super("ERR_CONNECTION", message, { cause });
  }
}

/** The client was closed before or during the call. */
export class ClientClosedError extends TokengradError {
  constructor() {
    super("ERR_CLIENT_CLOSED", "client: closed");
  }
}

/** An answer came that is not what the API promises: not JSON, cut off, or with a wrong or missing field. */
export class ResponseError extends TokengradError {
  constructor(message: string, options?: { cause?: unknown }) {
    super("ERR_RESPONSE", message, options);
  }
}

/** A scoring pass came back without log-probabilities; the batch may have been too large for the service. */
export class NoLogprobsError extends TokengradError {
  constructor(where: string) {
    super(
      "ERR_NO_LOGPROBS",
      `output.loss_fn_outputs: expected one entry per sample, got none; score fewer samples at a time (${where})`,
    );
  }
}

/** What an unsuccessful HTTP answer said. */
interface ApiErrorDetails {
  readonly status: number;
  readonly method: string;
  readonly url: string;
  /** The server's sentence. */
  readonly message: string;
  readonly serverCode: string | undefined;
  readonly type: string | undefined;
  readonly param: string | undefined;
  readonly requestId: string | undefined;
}

/** The server answered with an HTTP status outside 200-299. */
export class ApiError extends TokengradError {
  /** HTTP status. */
  readonly status: number;
  readonly method: string;
  readonly url: string;
  /** `error.code` of the body, where given. */
  readonly serverCode: string | undefined;
  /** `error.type` of the body, where given. */
  readonly type: string | undefined;
  /** `error.param` of the body: the field at fault, where given. */
  readonly param: string | undefined;
  /** The `x-request-id` header, where given. */
  readonly requestId: string | undefined;

  constructor(code: string, details: ApiErrorDetails) {
    super(code, `${details.status}: ${details.message} (${details.method} ${details.url})`);
    this.status = details.status;
    this.method = details.method;
    this.url = details.url;
    this.serverCode = details.serverCode;
    this.type = details.type;
    this.param = details.param;
    this.requestId = details.requestId;
  }
}

export class BadRequestError extends ApiError {}
export class AuthenticationError extends ApiError {}
export class PermissionDeniedError extends ApiError {}
export class NotFoundError extends ApiError {}
export class ConflictError extends ApiError {}
export class UnprocessableEntityError extends ApiError {}
export class RateLimitError extends ApiError {}
export class ServerError extends ApiError {}

const BY_STATUS: Readonly<Record<number, readonly [typeof ApiError, string]>> = {
  400: [BadRequestError, "ERR_BAD_REQUEST"],
  401: [AuthenticationError, "ERR_AUTHENTICATION"],
  403: [PermissionDeniedError, "ERR_PERMISSION_DENIED"],
  404: [NotFoundError, "ERR_NOT_FOUND"],
  409: [ConflictError, "ERR_CONFLICT"],
  422: [UnprocessableEntityError, "ERR_UNPROCESSABLE_ENTITY"],
  429: [RateLimitError, "ERR_RATE_LIMIT"],
};

/** The error for an unsuccessful answer, of the class that its status stands for. */
export function apiError(details: ApiErrorDetails): ApiError {
  const other =
    details.status >= 500 ? ([ServerError, "ERR_SERVER"] as const) : ([ApiError, "ERR_API"] as const);
  const [Class, code] = BY_STATUS[details.status] ?? other;
  return new Class(code, details);
}

/** Why an operation failed on the server, and whether the same operation may succeed when sent again. */
const FAILURES = {
  UNSPECIFIED: { retryable: false },
  RESOURCE_EXHAUSTED: { retryable: true },
  TIMEOUT: { retryable: true },
  INTERNAL_ERROR: { retryable: false },
  SESSION_NOT_ACTIVE: { retryable: false },
  INVALID_INPUT: { retryable: false },
  NON_FINITE_LOSS: { retryable: false },
} as const;

export type OperationFailure = keyof typeof FAILURES;

/** The server accepted an operation and then failed it. Its code is `ERR_OPERATION_` and the reason. */
export class OperationFailedError extends TokengradError {
  readonly operationId: string;
  readonly kind: string;
  readonly reason: OperationFailure;
  /** True where the same operation may succeed later, under a new idempotency key. */
  readonly retryable: boolean;

  constructor(
    kind: string,
    operationId: string,
    serverCode: string | undefined,
    message: string | undefined,
  ) {
    const named = serverCode?.replace("TRAINING_OPERATION_ERROR_CODE_", "") ?? "UNSPECIFIED";
    const reason = Object.hasOwn(FAILURES, named) ? (named as OperationFailure) : "UNSPECIFIED";
    super(
      `ERR_OPERATION_${reason}`,
      `${kind}: operation ${operationId} failed with ${named}${message ? `: ${message}` : ""}`,
    );
    this.operationId = operationId;
    this.kind = kind;
    this.reason = reason;
    this.retryable = FAILURES[reason].retryable;
  }
}
