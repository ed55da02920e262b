// One run of a submission: its operations, from the first that is sent to the last result.

import type { Answer } from "./answer.ts";
import type { Call } from "./call.ts";
import { halves, type Range } from "./chunks.ts";
import type { SessionContext } from "./core.ts";
import type { WireFormat } from "./formats.ts";
import type { Logprobs } from "./logprobs.ts";
import { NoLogprobsError, OperationFailedError } from "./operation-errors.ts";
import type { Turn } from "./order.ts";
import { resultOf } from "./poll.ts";
import { checkScored } from "./results.ts";
import type { Submission } from "./submission.ts";
import { type Accepted, type Operation, submit, type Taker } from "./submit.ts";

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

/** Results are asked for and read while later operations are still being submitted. */
export class Pass<T> implements Taker {
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
    const submitted = this.#submit({ from: 0, to: submission.count }, submission.formats).then(() => {
      if (!submission.holdsTurn) turn.done();
    });
    const done = this.#finish(submitted);
    // Whichever fails first ends the other, and its error is the call's.
    const fail = (error: Error) => call.fail(error);
    await Promise.all([submitted.catch(fail).finally(() => this.#end()), done.catch(fail)]);
    call.check();
    return done;
  }

  #submit(range: Range, formats: readonly WireFormat[]): Promise<void> {
    const { context, submission, key, call } = this.#run;
    const send = () => submit(context, submission, range, formats, key, call, this);
    return submission.samples === undefined ? send() : submission.samples.use(send);
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
    const { range: tried, format } = accepted[index]!;
    const parts = tooMuch && divisible && effect === "reads" && halves(tried);
    if (!parts) throw error;
    await submitted;
    const behind = accepted.splice(index).slice(1);
    for (const range of parts) await this.#submit(range, [format]);
    accepted.push(...behind);
  }
}
