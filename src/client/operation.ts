// Runs one operation of a session: submit it once, then ask for its result until it is there.

import { randomUUID } from "node:crypto";
import { InputError } from "../errors.ts";
import { Answer } from "./answer.ts";
import type { Body } from "./body.ts";
import { type Call, type CallOptions, runCall } from "./call.ts";
import {
  ApiError,
  BadRequestError,
  ConnectionError,
  OperationFailedError,
  UnprocessableEntityError,
} from "./errors.ts";
import { checkHeader, pathSegment, type Transport } from "./transport.ts";
import { moreTelling, type Refusal, type WireFormat, type WireFormatChoice } from "./wire.ts";

export type OperationKind =
  | "forward-backward"
  | "custom-forward-backward"
  | "optim-step"
  | "weights-sync"
  | "sample"
  | "inference-checkpoint"
  | "training-checkpoint";

/** An operation that the service has taken. */
export interface Operation {
  readonly id: string;
  readonly kind: OperationKind;
  /** The key under which it was sent; sending the same body with it again gives the same operation. */
  readonly idempotencyKey: string;
}

export interface OperationOptions extends CallOptions {
  /** Key of this operation, for a caller that repeats it itself; made anew for each call by default. */
  readonly idempotencyKey?: string | undefined;
}

/** What a client shares with its sessions. */
export interface Core {
  readonly transport: Transport;
  readonly wireFormat: WireFormatChoice;
  /** Default for `timeoutMs` of a call. @unit milliseconds */
  readonly timeoutMs: number;
  /** The longest pause between two looks at an operation. @unit milliseconds */
  readonly pollIntervalMs: number;
}

/** The body of an operation, made when it is sent. */
export interface Submission {
  readonly kind: OperationKind;
  /** The formats to try, best first. */
  readonly formats: readonly WireFormat[];
  body(call: Call, format: WireFormat): Body | undefined | Promise<Body | undefined>;
}

export interface Finished {
  readonly output: Answer;
  readonly operation: Operation;
}

const FIRST_PAUSE_MS = 10;
const PAUSE_GROWTH = 1.5;

/** Statuses that mean "not ready yet" while waiting; so does a failed connection. */
const TRANSIENT_STATUSES: readonly number[] = [408, 409, 429];

export async function runOperation<T>(
  core: Core,
  sessionPath: string,
  submission: Submission,
  options: OperationOptions,
  finish: (finished: Finished) => T,
): Promise<T> {
  const { kind } = submission;
  return runCall(kind, options, core.timeoutMs, async (call) => {
    const path = `${sessionPath}/operations/${kind}`;
    const submitted = await submit(core, path, submission, options.idempotencyKey, call);
    const operation = { id: submitted.at("id").string(), kind, idempotencyKey: call.idempotencyKey! };
    call.operationId = operation.id;
    const output = outputOf(submitted, operation) ?? (await poll(core, path, operation, call));
    return finish({ output, operation });
  });
}

async function submit(
  core: Core,
  path: string,
  submission: Submission,
  givenKey: string | undefined,
  call: Call,
): Promise<Answer> {
  if (givenKey === "")
    throw new InputError(`${submission.kind}.idempotencyKey`, "expected a key, got an empty string");
  if (givenKey !== undefined) checkHeader(`${submission.kind}.idempotencyKey`, "idempotency-key", givenKey);
  let refusal: Refusal | undefined;
  for (const format of submission.formats) {
    const body = await submission.body(call, format);
    // Another format is another body, and a key stands for one body only.
    const idempotencyKey =
      givenKey === undefined ? randomUUID() : refusal ? `${givenKey}-${format}` : givenKey;
    call.idempotencyKey = idempotencyKey;
    try {
      const answer = await core.transport.send({ method: "POST", path, body, idempotencyKey }, call);
      if (submission.formats.length > 1) core.wireFormat.remember(format);
      return answer;
    } catch (error) {
      if (!(error instanceof BadRequestError || error instanceof UnprocessableEntityError)) throw error;
      call.idempotencyKey = undefined;
      if (refusal !== undefined) throw moreTelling(refusal, { error, format });
      refusal = { error, format };
    }
  }
  throw refusal!.error;
}

async function poll(core: Core, path: string, operation: Operation, call: Call): Promise<Answer> {
  const request = { method: "GET", path: `${path}/${pathSegment("operation.id", operation.id)}` } as const;
  for (let longest = FIRST_PAUSE_MS; ; longest *= PAUSE_GROWTH) {
    try {
      const output = outputOf(await core.transport.send(request, call), operation);
      if (output !== undefined) return output;
    } catch (error) {
      call.check();
      if (!isTransient(error)) throw error;
      call.lastFailure = error;
    }
    longest = Math.min(longest, core.pollIntervalMs);
    await call.pause(longest * (0.5 + Math.random() / 2));
  }
}

function isTransient(error: unknown): boolean {
  if (error instanceof ConnectionError) return true;
  return error instanceof ApiError && (error.status >= 500 || TRANSIENT_STATUSES.includes(error.status));
}

/** The output of a completed operation, undefined while it goes on; throws where it failed. */
function outputOf(answer: Answer, { id, kind }: Operation): Answer | undefined {
  const status = answer.at("status");
  switch (status.word<string>("TRAINING_OPERATION_STATUS_")) {
    case "COMPLETED":
      return outputMember(answer, kind);
    case "FAILED": {
      const error = answer.maybe("error");
      throw new OperationFailedError(
        kind,
        id,
        error?.maybe("code")?.string(),
        error?.maybe("message")?.string(),
      );
    }
    case "UNSPECIFIED":
    case "PENDING":
    case "RUNNING":
      return undefined;
    default:
      return status.fail("the status of an operation");
  }
}

/** A custom pass has nothing to say, so only its output may be missing. */
function outputMember(answer: Answer, kind: OperationKind): Answer {
  if (kind !== "custom-forward-backward") return answer.at("output");
  return answer.maybe("output") ?? new Answer({}, "output", answer.request);
}
