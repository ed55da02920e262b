// Runs an operation of a session to its end: in its turn, submitted once, asked for until it is there.

import { randomUUID } from "node:crypto";
import { InputError } from "../errors.ts";
import type { Answer } from "./answer.ts";
import { ApiError } from "./api-errors.ts";
import { type Call, type CallOptions, runCall } from "./call.ts";
import { halves, type Range } from "./chunks.ts";
import type { SessionContext } from "./core.ts";
import { CallAbortedError, ClientClosedError, ClientError, TimeoutError } from "./errors.ts";
import {
  AmbiguousStepError,
  NoLogprobsError,
  NotSentError,
  OperationFailedError,
  PartialPassError,
} from "./operation-errors.ts";
import { resultOf } from "./poll.ts";
import { mayHaveArrived } from "./retry.ts";
import type { Submission } from "./submission.ts";
import { type Accepted, type Operation, submit } from "./submit.ts";
import { checkHeader } from "./transport.ts";

export interface OperationOptions extends CallOptions {
  /**
   * Key of this operation, for a caller that repeats it itself; made anew for each call by default. A batch that goes
   * out in parts has a key for each, which begins with this one.
   */
  readonly idempotencyKey?: string | undefined;
}

/** An operation's output, with the items that it is about. */
export interface Finished {
  readonly output: Answer;
  readonly range: Range;
}

/** What a call gives of the operations that it became. */
export interface Done<T> {
  /** One result for each operation, in the order of their items. */
  readonly parts: readonly T[];
  /** The last of the operations; most calls are a single one. */
  readonly operation: Operation;
  readonly operations: readonly Operation[];
}

/**
 * Runs a submission, in one operation or in as many as its size needs; `read` takes the output of each. `names` are those
 * that the options may have besides an operation's own.
 */
export async function runOperation<T>(
  context: SessionContext,
  submission: Submission,
  options: OperationOptions,
  read: (finished: Finished) => T,
  names: readonly string[] = [],
): Promise<Done<T>> {
  const { core } = context;
  const { kind, count, effect } = submission;
  const key = checkKey(kind, options.idempotencyKey) ?? randomUUID();
  const accepted: Accepted[] = [];
  const event = { kind, sessionId: context.id, items: count, operationIds: [] as string[] };
  const run = (call: Call) =>
    context.order.run(effect, call, async (turn) => {
      const pass = new Pass({ context, submission, key, call, accepted, read });
      await pass.submit({ from: 0, to: count });
      if (!submission.holdsTurn) turn.done();
      return pass.finish();
    });
  try {
    return await core.observer.operation(event, async () => {
      try {
        return await runCall(kind, options, core.timeoutMs, run, ["idempotencyKey", ...names]);
      } finally {
        event.operationIds.push(...accepted.map(({ operation }) => operation.id));
      }
    });
  } catch (error) {
    throw explained(error as Error, submission, key, accepted);
  }
}

interface Run<T> {
  readonly context: SessionContext;
  readonly submission: Submission;
  readonly key: string;
  readonly call: Call;
  /** Filled as the service takes one operation after the other. */
  readonly accepted: Accepted[];
  readonly read: (finished: Finished) => T;
}

/** One run of a submission: all its operations, from their submission to their results. */
class Pass<T> {
  readonly #run: Run<T>;

  constructor(run: Run<T>) {
    this.#run = run;
  }

  submit(range: Range): Promise<void> {
    const { context, submission, key, call, accepted } = this.#run;
    return submit(context, submission, range, key, call, accepted);
  }

  async finish(): Promise<Done<T>> {
    const { context, call, accepted, read } = this.#run;
    const parts: T[] = [];
    const operations: Operation[] = [];
    for (let next = accepted[0]; next !== undefined; next = accepted[operations.length]) {
      try {
        const output = await context.channel.resolve(await resultOf(context, next, call), call);
        parts.push(read({ output, range: next.range }));
        operations.push(next.operation);
      } catch (error) {
        await this.#smaller(operations.length, error);
      }
    }
    return { parts, operations, operation: operations.at(-1)! };
  }

  /** Puts halves in the place of a scoring pass that was too much for the service. */
  async #smaller(index: number, error: unknown): Promise<void> {
    const { submission, accepted } = this.#run;
    const tooMuch =
      error instanceof NoLogprobsError ||
      (error instanceof OperationFailedError && error.reason === "RESOURCE_EXHAUSTED");
    const { divisible, effect } = submission;
    const parts = tooMuch && divisible && effect === "reads" && halves(accepted[index]!.range);
    if (!parts) throw error;
    const behind = accepted.splice(index).slice(1);
    for (const range of parts) await this.submit(range);
    accepted.push(...behind);
  }
}

function checkKey(kind: string, key: string | undefined): string | undefined {
  if (key === "") throw new InputError(`${kind}.idempotencyKey`, "expected a key, got an empty string");
  if (key !== undefined) checkHeader(`${kind}.idempotencyKey`, "idempotency-key", key);
  return key;
}

/** The caller ended it, or it never began. */
const STOPPED = [CallAbortedError, ClientClosedError, NotSentError];

/** The error that says what became of the operation: a failed request alone does not tell it. */
function explained(error: Error, submission: Submission, key: string, accepted: readonly Accepted[]): Error {
  if (submission.effect !== "changes") return error;
  if (STOPPED.some((Class) => error instanceof Class)) return error;
  const known = accepted[0];
  if (submission.kind === "optim-step") {
    const lost = known === undefined && error instanceof ClientError && isUncertain(error);
    // The service no longer knows an operation that it had accepted.
    const forgotten = known !== undefined && error instanceof ApiError && [404, 410].includes(error.status);
    return lost || forgotten ? new AmbiguousStepError(key, known?.operation.id, error) : error;
  }
  if (known === undefined) return error;
  const ids = accepted.map(({ operation }) => operation.id);
  const failed = error instanceof OperationFailedError ? ids.indexOf(error.operationId) : -1;
  const done = failed >= 0 ? accepted[failed]!.range.from : accepted.at(-1)!.range.to;
  const inParts = accepted.length > 1 || known.range.to < submission.count;
  if (!inParts || done === submission.count) return error;
  return new PartialPassError(done, submission.count, ids, key, error);
}

/** Whether one of the requests behind the error may have done its work. */
function isUncertain(error: ClientError): boolean {
  if (error instanceof TimeoutError) return error.idempotencyKey !== undefined;
  return mayHaveArrived(error) || error.attempts.some(({ mayHaveArrived }) => mayHaveArrived);
}
