// Errors that the server answers with: one class per HTTP status, each with a stable code.

import { ClientError } from "./errors.ts";

/** What an unsuccessful HTTP answer said. */
interface ApiErrorDetails {
  readonly status: number;
  readonly method: string;
  /** Without the query of a storage address. */
  readonly url: string;
  /** The server's sentence. */
  readonly message: string;
  /** Whether the body was an error of the API, and not a proxy's page or nothing. */
  readonly explained: boolean;
  readonly serverCode: string | undefined;
  readonly type: string | undefined;
  readonly param: string | undefined;
  readonly requestId: string | undefined;
  /** What the server says of a repeat: the header `x-should-retry`. */
  readonly shouldRetry: boolean | undefined;
  /** How long the server asks to wait, up to a minute. @unit milliseconds */
  readonly retryAfterMs: number | undefined;
  /** Size of the request's body. @unit bytes */
  readonly bytes: number;
}

/** The server answered with an HTTP status outside 200-299. */
export class ApiError extends ClientError {
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
  /** Whether the body was an error of the API, and not a proxy's page or nothing. */
  readonly explained: boolean;
  /** The header `x-should-retry`, where given. */
  readonly shouldRetry: boolean | undefined;
  /** How long the server asks to wait, where it says so and it is at most a minute. @unit milliseconds */
  readonly retryAfterMs: number | undefined;

  constructor(code: string, details: ApiErrorDetails, more = "") {
    super(code, `${details.status}: ${details.message} (${details.method} ${details.url})${more}`);
    this.status = details.status;
    this.method = details.method;
    this.url = details.url;
    this.serverCode = details.serverCode;
    this.type = details.type;
    this.param = details.param;
    this.requestId = details.requestId;
    this.explained = details.explained;
    this.shouldRetry = details.shouldRetry;
    this.retryAfterMs = details.retryAfterMs;
  }
}

export class BadRequestError extends ApiError {}
export class AuthenticationError extends ApiError {}
export class PermissionDeniedError extends ApiError {}
export class NotFoundError extends ApiError {}
export class ConflictError extends ApiError {}
/** The idempotency key was used before for another request; only a new key helps. */
export class IdempotencyConflictError extends ConflictError {}
/** What was asked for is no longer kept, such as the result of an old operation. */
export class GoneError extends ApiError {}
export class UnprocessableEntityError extends ApiError {}
export class RateLimitError extends ApiError {}
export class ServerError extends ApiError {}

/** The body was larger than the server takes, and could not be split. */
export class PayloadTooLargeError extends ApiError {
  /** Size of the body that was refused. @unit bytes */
  readonly bytes: number;

  constructor(code: string, details: ApiErrorDetails) {
    super(code, details, `; the body had ${details.bytes} bytes`);
    this.bytes = details.bytes;
  }
}

const BY_STATUS: Readonly<Record<number, readonly [typeof ApiError, string]>> = {
  400: [BadRequestError, "ERR_BAD_REQUEST"],
  401: [AuthenticationError, "ERR_AUTHENTICATION"],
  403: [PermissionDeniedError, "ERR_PERMISSION_DENIED"],
  404: [NotFoundError, "ERR_NOT_FOUND"],
  409: [ConflictError, "ERR_CONFLICT"],
  410: [GoneError, "ERR_GONE"],
  413: [PayloadTooLargeError, "ERR_PAYLOAD_TOO_LARGE"],
  422: [UnprocessableEntityError, "ERR_UNPROCESSABLE_ENTITY"],
  429: [RateLimitError, "ERR_RATE_LIMIT"],
};

/** The error for an unsuccessful answer, of the class that its status stands for. */
export function apiError(details: ApiErrorDetails): ApiError {
  if (details.status === 409 && speaksOfKey(details)) {
    return new IdempotencyConflictError("ERR_IDEMPOTENCY_CONFLICT", details);
  }
  const other =
    details.status >= 500 ? ([ServerError, "ERR_SERVER"] as const) : ([ApiError, "ERR_API"] as const);
  const [Class, code] = BY_STATUS[details.status] ?? other;
  return new Class(code, details);
}

/** Whether a conflict is about the key and not about a lock, which a later repeat may find open. */
function speaksOfKey({ serverCode, type, param, message }: ApiErrorDetails): boolean {
  return /idempoten/i.test(`${serverCode} ${type} ${param} ${message}`);
}
