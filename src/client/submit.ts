// Submits operations: each once under its key, uploaded or inline, split where it is too large for one request.

import type { Answer } from "./answer.ts";
import {
  type ApiError,
  BadRequestError,
  PayloadTooLargeError,
  UnprocessableEntityError,
} from "./api-errors.ts";
import type { Body } from "./body.ts";
import type { Call } from "./call.ts";
import { halves, planChunks, type Range } from "./chunks.ts";
import type { SessionContext } from "./core.ts";
import { ClientError } from "./errors.ts";
import { moreTelling, type Refusal } from "./format-choice.ts";
import type { WireFormat } from "./formats.ts";
import type { Logprobs, LogprobsPart } from "./logprobs.ts";
import { INLINE_BYTES, SHORTENED_VALUES } from "./payloads.ts";
import {
  type Encoded,
  encode,
  encodedBytes,
  estimate,
  type OperationKind,
  type Submission,
  shortenedBody,
  uploadedBody,
  wholeBody,
} from "./submission.ts";

/** An operation that the service has taken. */
export interface Operation {
  readonly id: string;
  readonly kind: OperationKind;
  /** The key that was sent: the call's, with an ending for a part of a batch or for the second wire format. */
  readonly idempotencyKey: string;
}

/** An operation with the items that it is about. */
export interface Accepted {
  readonly operation: Operation;
  readonly range: Range;
  readonly format: WireFormat;
  /** The answer to its submission, which may hold its result already. */
  readonly answer: Answer;
  /** Where the log-probabilities go that its answers may bring. */
  readonly logprobs: LogprobsPart | undefined;
}

/** Where the operations go that the service takes. */
export interface Taker {
  /** Of the whole submission. */
  readonly logprobs: Logprobs | undefined;
  /** Called at once with every operation that the service has taken. */
  take(accepted: Accepted): void;
}

/** Sends a range of the submission's items, in the first of the formats that the service takes. */
export async function submit(
  context: SessionContext,
  submission: Submission,
  range: Range,
  formats: readonly WireFormat[],
  key: string,
  call: Call,
  taker: Taker,
): Promise<void> {
  const { core } = context;
  let taken = false;
  const noting = {
    logprobs: taker.logprobs,
    take: (accepted: Accepted) => {
      taken = true;
      taker.take(accepted);
    },
  };
  const share = await core.budget.take(estimate(submission, range), call);
  try {
    let refusal: Refusal | undefined;
    for (const format of formats) {
      const encoded = await encode(submission, format, range, call);
      share.resize(encodedBytes(encoded, range));
      try {
        await sendAll(context, encoded, format, key, call, noting);
        encoded.release();
        if (formats.length > 1) core.wireFormat.remember(format);
        return;
      } catch (error) {
        if (!isRefusal(error) || taken) throw error;
        call.idempotencyKey = undefined;
        if (refusal !== undefined) throw moreTelling(refusal, { error, format });
        refusal = { error, format };
      }
    }
    throw refusal!.error;
  } finally {
    share.release();
  }
}

function isRefusal(error: unknown): error is ApiError {
  return error instanceof BadRequestError || error instanceof UnprocessableEntityError;
}

/** Sends what was encoded, in as many operations as it takes. */
async function sendAll(
  context: SessionContext,
  encoded: Encoded,
  format: WireFormat,
  key: string,
  call: Call,
  taker: Taker,
): Promise<void> {
  const { submission } = encoded;
  const pending = plan(context, encoded, encoded.range);
  for (let range = pending.shift(); range !== undefined; range = pending.shift()) {
    const whole = range.from === 0 && range.to === submission.count;
    const ending = whole ? "" : `-${range.from}-${range.to}`;
    const idempotencyKey = `${key}${context.core.wireFormat.keyEnding(format)}${ending}`;
    try {
      const body = await bodyOf(context, encoded, format, range, call);
      if (body === "no channel") {
        // Without the channel, sizes matter.
        pending.unshift(...plan(context, encoded, range));
        continue;
      }
      // To be repeated, a call needs its own key.
      call.idempotencyKey = key;
      call.operationId = undefined;
      const request = { method: "POST", path: `${context.path}/operations/${submission.kind}` } as const;
      const logprobs = taker.logprobs?.part(range);
      const answer = await context.core.sender.send({ ...request, body, idempotencyKey, logprobs }, call);
      const operation = { id: answer.at("id").string(), kind: submission.kind, idempotencyKey };
      call.operationId = operation.id;
      taker.take({ operation, range, format, answer, logprobs });
    } catch (error) {
      if (error instanceof ClientError) error.idempotencyKey = call.idempotencyKey;
      const smaller = submission.divisible ? halves(range) : undefined;
      if (!(error instanceof PayloadTooLargeError) || smaller === undefined) throw error;
      pending.unshift(...smaller);
    }
  }
}

function plan({ core, channel }: SessionContext, encoded: Encoded, range: Range): Range[] {
  if (!encoded.submission.divisible) return [range];
  const { maxSamples, maxBytes } = core.chunks;
  const uploads = core.payloads !== "inline" && !channel.missing;
  return planChunks(range, { maxSamples, maxBytes: uploads ? Infinity : maxBytes }, (part) =>
    encodedBytes(encoded, part),
  );
}

/** The body to send: whole, or in the place of what it has uploaded. */
async function bodyOf(
  { core, channel }: SessionContext,
  encoded: Encoded,
  format: WireFormat,
  range: Range,
  call: Call,
): Promise<Body | undefined | "no channel"> {
  const whole = wholeBody(encoded, range);
  const small = whole === undefined || whole.bytes <= INLINE_BYTES;
  if (small || core.payloads === "inline" || channel.missing) return whole;
  // Made while the upload goes on; neither reads what is the caller's once this has settled.
  const [id, short] = await Promise.allSettled([
    channel.upload(uploadedBody(encoded, range), call, core.payloads),
    encode(encoded.submission, format, range, call, SHORTENED_VALUES),
  ]);
  if (id.status === "rejected") throw id.reason;
  if (id.value === undefined) return "no channel";
  if (short.status === "rejected") throw short.reason;
  return shortenedBody(short.value, range, id.value);
}
