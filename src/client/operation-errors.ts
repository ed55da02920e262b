// Errors of operations: failed on the server, of unknown outcome, done in part, or never sent.

import { TokengradError } from "../errors.ts";
import { ClientError } from "./errors.ts";

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

/** A scoring pass came back without log-probabilities, where it could not be cut into smaller ones. */
export class NoLogprobsError extends TokengradError {
  constructor(where: string) {
    super(
      "ERR_NO_LOGPROBS",
      `output.loss_fn_outputs: expected one entry per sample, got none; score fewer samples at a time (${where})`,
    );
  }
}

/**
 * Whether an optimizer step was made cannot be told: requests got lost, or its result is no longer kept. The client
 * never guesses. `session.optimStep` with the same options and this `idempotencyKey` makes the step if it was not made
 * and reports it if it was; `session.info()` tells the number of steps made.
 */
export class AmbiguousStepError extends ClientError {
  override readonly idempotencyKey: string;
  /** Where the server had accepted the step. */
  readonly operationId: string | undefined;

  constructor(idempotencyKey: string, operationId: string | undefined, cause: Error) {
    const accepted = operationId === undefined ? "" : `, operation ${operationId}`;
    super(
      "ERR_AMBIGUOUS_STEP",
      `optim-step: the step may or may not have been made; repeat the call with idempotencyKey ${JSON.stringify(idempotencyKey)}` +
        `${accepted}, which makes it at most once, or compare session.info().step: ${cause.message}`,
      { cause },
    );
    this.idempotencyKey = idempotencyKey;
    this.operationId = operationId;
    if (cause instanceof ClientError) this.attempts = cause.attempts;
  }
}

/**
 * A batch of gradients that went out in parts is on the trainer in part: the samples before `samplesDone` count, those
 * behind it do not or cannot be told. `cause` is what went wrong.
 */
export class PartialPassError extends TokengradError {
  /** Samples whose gradients the server has accepted. */
  readonly samplesDone: number;
  readonly operationIds: readonly string[];
  /** Of the whole pass: repeating the same call with it completes the pass and applies nothing twice. */
  readonly idempotencyKey: string;

  constructor(
    samplesDone: number,
    samples: number,
    operationIds: readonly string[],
    idempotencyKey: string,
    cause: Error,
  ) {
    super(
      "ERR_PARTIAL_PASS",
      `custom-forward-backward: only the first ${samplesDone} of ${samples} samples are certain to have been accepted; ` +
        `repeat the call with idempotencyKey ${JSON.stringify(idempotencyKey)} to complete it: ${cause.message}`,
      { cause },
    );
    this.samplesDone = samplesDone;
    this.operationIds = operationIds;
    this.idempotencyKey = idempotencyKey;
  }
}

/** An operation was queued behind another of its session, which failed before the server accepted it. */
export class NotSentError extends TokengradError {
  constructor(call: string, before: string, cause: Error) {
    super("ERR_NOT_SENT", `${call}: not sent, since ${before} before it failed: ${cause.message}`, { cause });
  }
}
