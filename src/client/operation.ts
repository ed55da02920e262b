// Runs an operation of a session to its end: in its turn, submitted once, asked for until it is there.

import { randomUUID } from "node:crypto";
import { InputError } from "../errors.ts";
import type { Answer } from "./answer.ts";
import { ApiError } from "./api-errors.ts";
import { type Call, type CallOptions, runCall } from "./call.ts";
import type { SessionContext } from "./core.ts";
import { CallAbortedError, ClientClosedError, ClientError, TimeoutError } from "./errors.ts";
import {
  AmbiguousStepError,
  NotSentError,
  OperationFailedError,
  PartialPassError,
} from "./operation-errors.ts";
import type { Turn } from "./order.ts";
import { type Done, Pass } from "./pass.ts";
import { mayHaveArrived } from "./retry.ts";
import type { Asked } from "./submission.ts";
import type { Accepted } from "./submit.ts";
import { checkHeader } from "./transport.ts";

export interface OperationOptions extends CallOptions {
  /**
   * Key of this operation, for a caller that repeats it itself; made anew for each call by default. A batch that goes
   * out in parts has a key for each, which begins with this one.
   */
  readonly idempotencyKey?: string | undefined;
}

/**
 * Runs what was asked for, in one operation or in as many as its size needs; `read` takes the output of each. `names` are
 * those that the options may have besides an operation's own. Where the arguments of a change are wrong, nothing goes out
 * that was called in the belief that they were not.
 */
export async function runOperation<T>(
  context: SessionContext,
  asked: Asked,
  options: OperationOptions,
  read: (output: Answer) => T,
  names: readonly string[] = [],
): Promise<Done<T>> {
  const { core } = context;
  const { kind, count, effect } = asked;
  const event = { kind, sessionId: context.id, items: count, operationIds: [] as string[] };
  const run = async (turn: Turn) => {
    const key = checkKey(kind, options?.idempotencyKey) ?? randomUUID();
    const accepted: Accepted[] = [];
    const work = async (call: Call) => {
      const submission = await call.until(asked.check(call.signal));
      await turn.come(call);
      const logprobs = submission.logprobs?.();
      return new Pass({ context, submission, key, call, accepted, logprobs, read }).run(turn);
    };
    try {
      return await runCall(kind, options, core.timeoutMs, work, ["idempotencyKey", ...names]);
    } catch (error) {
      throw explained(error as Error, asked, key, accepted);
    } finally {
      event.operationIds.push(...accepted.map(({ operation }) => operation.id));
    }
  };
  return core.observer.operation(event, () => context.order.run(effect, kind, run));
}

function checkKey(kind: string, key: string | undefined): string | undefined {
  if (key === "") throw new InputError(`${kind}.idempotencyKey`, "expected a key, got an empty string");
  if (key !== undefined) checkHeader(`${kind}.idempotencyKey`, "idempotency-key", key);
  return key;
}

/** The caller ended it, or it never began. */
const STOPPED = [CallAbortedError, ClientClosedError, NotSentError];

/** The error that says what became of the operation: a failed request alone does not tell it. */
function explained(error: Error, asked: Asked, key: string, accepted: readonly Accepted[]): Error {
  if (asked.effect !== "changes") return error;
  if (STOPPED.some((Class) => error instanceof Class)) return error;
  const known = accepted[0];
  if (asked.kind === "optim-step") {
    const lost = known === undefined && error instanceof ClientError && isUncertain(error);
    // The service no longer knows an operation that it had accepted.
    const forgotten = known !== undefined && error instanceof ApiError && [404, 410].includes(error.status);
    return lost || forgotten ? new AmbiguousStepError(key, known?.operation.id, error) : error;
  }
  if (known === undefined) return error;
  const ids = accepted.map(({ operation }) => operation.id);
  const failed = error instanceof OperationFailedError ? ids.indexOf(error.operationId) : -1;
  const done = failed >= 0 ? accepted[failed]!.range.from : accepted.at(-1)!.range.to;
  const inParts = accepted.length > 1 || known.range.to < asked.count;
  if (!inParts || done === asked.count) return error;
  return new PartialPassError(done, asked.count, ids, key, error);
}

/** Whether one of the requests behind the error may have done its work. */
function isUncertain(error: ClientError): boolean {
  if (error instanceof TimeoutError) return error.idempotencyKey !== undefined;
  return mayHaveArrived(error) || error.attempts.some(({ mayHaveArrived }) => mayHaveArrived);
}
