// Runs an operation of a session to its end: in its turn, submitted once, asked for until it is there.

import { randomUUID } from "node:crypto";
import { InputError } from "../errors.ts";
import type { Answer } from "./answer.ts";
import { ApiError } from "./api-errors.ts";
import { type Call, type CallOptions, runCall } from "./call.ts";
import { halves, type Range } from "./chunks.ts";
import type { SessionContext } from "./core.ts";
import { CallAbortedError, ClientClosedError, ClientError, TimeoutError } from "./errors.ts";
import type { Logprobs } from "./logprobs.ts";
import {
  AmbiguousStepError,
  NoLogprobsError,
  NotSentError,
  OperationFailedError,
  PartialPassError,
} from "./operation-errors.ts";
import type { Turn } from "./order.ts";
import { resultOf } from "./poll.ts";
import { checkScored } from "./results.ts";
import { mayHaveArrived } from "./retry.ts";
import type { Submission } from "./submission.ts";
import { type Accepted, type Operation, submit, type Taker } from "./submit.ts";
import { checkHeader } from "./transport.ts";

export interface OperationOptions extends CallOptions {
  /**
   * Key of this operation, for a caller that repeats it itself; made anew for each call by default. A batch that goes
   * out in parts has a key for each, which begins with this one.
   */
  readonly idempotencyKey?: string | undefined;
}

/** What a call gives of the operations that it became. */
export interface Done<T> {
  /** One result for each operation, in the order of their items. */
  readonly parts: readonly T[];
  /** The last of the operations; most calls are a single one. */
  readonly operation: Operation;
  readonly operations: readonly Operation[];
  /** Those of all items, where the submission asked for them. */
  readonly logprobs: Logprobs | undefined;
}

/**
 * Runs a submission, in one operation or in as many as its size needs; `read` takes the output of each. `names` are those
 * that the options may have besides an operation's own.
 */
export async function runOperation<T>(
  context: SessionContext,
  submission: Submission,
  options: OperationOptions,
  read: (output: Answer) => T,
  names: readonly string[] = [],
): Promise<Done<T>> {
  const { core } = context;
  const { kind, count, effect } = submission;
  const key = checkKey(kind, options.idempotencyKey) ?? randomUUID();
  const accepted: Accepted[] = [];
  const event = { kind, sessionId: context.id, items: count, operationIds: [] as string[] };
  const run = (call: Call) =>
    context.order.run(effect, call, async (turn) => {
      const logprobs = submission.logprobs && (await submission.logprobs(call));
      return new Pass({ context, submission, key, call, accepted, logprobs, read }).run(turn);
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
  readonly logprobs: Logprobs | undefined;
  readonly read: (output: Answer) => T;
}

/** One run of a submission: results are asked for and read while later operations are still being submitted. */
class Pass<T> implements Taker {
  readonly #run: Run<T>;
  #submitting = true;
  /** Called when there is a further operation, or none will come any more. */
  #wake: () => void = () => {};

  constructor(run: Run<T>) {
    this.#run = run;
  }

  get logprobs(): Logprobs | undefined {
    return this.#run.logprobs;
  }

  take(accepted: Accepted): void {
    this.#run.accepted.push(accepted);
    this.#wake();
  }

  async run(turn: Turn): Promise<Done<T>> {
    const { submission, call } = this.#run;
    const submitted = this.#submit({ from: 0, to: submission.count }).then(() => {
      if (!submission.holdsTurn) turn.done();
    });
    const done = this.#finish(submitted);
    // Whichever fails first ends the other, and its error is the call's.
    const fail = (error: Error) => call.fail(error);
    await Promise.all([submitted.catch(fail).finally(() => this.#end()), done.catch(fail)]);
    call.check();
    return done;
  }

  #submit(range: Range): Promise<void> {
    const { context, submission, key, call } = this.#run;
    return submit(context, submission, range, key, call, this);
  }

  #end(): void {
    this.#submitting = false;
    this.#wake();
  }

  async #finish(submitted: Promise<void>): Promise<Done<T>> {
    const { context, call, accepted, logprobs, read } = this.#run;
    const parts: T[] = [];
    const operations: Operation[] = [];
    while (this.#submitting || operations.length < accepted.length) {
      const next = accepted[operations.length];
      if (next === undefined) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        continue;
      }
      if (!this.#submitting) call.operationId = next.operation.id;
      try {
        const output = await context.channel.resolve(
          await resultOf(context, next, call),
          call,
          next.logprobs,
        );
        const part = read(output);
        if (next.logprobs !== undefined) checkScored(output, next.logprobs);
        parts.push(part);
        operations.push(next.operation);
      } catch (error) {
        await this.#smaller(operations.length, error, submitted);
      }
    }
    return { parts, operations, operation: operations.at(-1)!, logprobs };
  }

  /** Puts halves in the place of a scoring pass that was too much for the service. */
  async #smaller(index: number, error: unknown, submitted: Promise<void>): Promise<void> {
    const { submission, accepted } = this.#run;
    const tooMuch =
      error instanceof NoLogprobsError ||
      (error instanceof OperationFailedError && error.reason === "RESOURCE_EXHAUSTED");
    const { divisible, effect } = submission;
    const parts = tooMuch && divisible && effect === "reads" && halves(accepted[index]!.range);
    if (!parts) throw error;
    await submitted;
    const behind = accepted.splice(index).slice(1);
    for (const range of parts) await this.#submit(range);
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
