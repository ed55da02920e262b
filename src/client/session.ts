// A training session: the operations that score, train, publish and sample.

import type { Answer } from "./answer.ts";
import { type CallOptions, runCall } from "./call.ts";
import type { SessionContext } from "./core.ts";
import type { GradientsLike } from "./gradients.ts";
import type { Logprobs } from "./logprobs.ts";
import type { LossConfig } from "./loss.ts";
import { type OperationOptions, runOperation } from "./operation.ts";
import { SessionOrder } from "./order.ts";
import { customPass, lossPass, samplePass, smallPass } from "./passes.ts";
import { operationRequest } from "./poll.ts";
import { type PreparedSamples, prepare, type SamplesLike, withPrepared } from "./prepared.ts";
import {
  type OptimizerOptions,
  optimStepFields,
  type SamplingOptions,
  samplingFields,
  type WeightsSyncOptions,
  weightsSyncFields,
} from "./requests.ts";
import {
  type Checkpoint,
  checkpoint,
  type LossResult,
  lossResult,
  type OperationInfo,
  operationInfo,
  type SampleResult,
  sampleResults,
} from "./results.ts";
import type { Sample, TokenRow } from "./sample.ts";
import {
  getSession,
  type SessionInfo,
  type SessionUpdate,
  type StopOptions,
  stopSession,
  updateSession,
} from "./session-info.ts";
import type { Asked, OperationKind } from "./submission.ts";
import type { Operation } from "./submit.ts";

export interface ForwardOptions extends OperationOptions {
  /** Decides which positions are scored; by default `cross_entropy`, which scores those whose weight is not 0. */
  readonly loss?: LossConfig | undefined;
}

export interface ForwardBackwardOptions extends OperationOptions {
  /** Also gives each sample's log-probabilities: a larger answer and a slower step. */
  readonly returnOutputs?: boolean | undefined;
}

/** A checkpoint of a large model takes long, so its calls wait at least this long by default. @unit milliseconds */
const CHECKPOINT_TIMEOUT_MS = 7_200_000;

/** The operations that a call became: one, or several where its batch went out in parts. */
export interface Operations {
  /** The last of them. */
  readonly operation: Operation;
  readonly operations: readonly Operation[];
}

/**
 * Operations may be called without waiting for those before: what changes the session goes out in the order of the calls,
 * and nothing goes out behind a change that the server refused. `await using` stops the session at the end of its scope.
 */
export class Session implements AsyncDisposable {
  readonly id: string;
  readonly #context: SessionContext;

  /** Made by `client.sessions`. */
  constructor(context: SessionContext) {
    this.id = context.id;
    this.#context = context;
  }

  /**
   * Scores a batch without accumulating gradients. `logprobs` has one row per sample, one value per target; positions
   * of weight 0 hold 0. The rows are views of one buffer. With `cross_entropy`, a batch that is too large for the service
   * is scored in parts; `metrics` is then empty, since figures of parts have no sum.
   */
  async forward(
    samples: SamplesLike,
    options: ForwardOptions = {},
  ): Promise<LossResult & { logprobs: Float32Array[] } & Operations> {
    const { logprobs, ...result } = await this.#score(samples, "rows", options);
    return { ...result, logprobs: await logprobs.rows() };
  }

  /**
   * As `forward`. `logprobs` holds the trained tokens only, those of weight above 0, one sample behind the other: as
   * `createBatch` takes them.
   */
  async forwardPacked(
    samples: SamplesLike,
    options: ForwardOptions = {},
  ): Promise<LossResult & { logprobs: Float32Array } & Operations> {
    const { logprobs, ...result } = await this.#score(samples, "packed", options);
    return { ...result, logprobs: logprobs.values };
  }

  /** Runs a built-in loss and accumulates its gradients until the next `optimStep`. Always one operation. */
  async forwardBackward(
    samples: SamplesLike,
    loss: LossConfig,
    options: ForwardBackwardOptions = {},
  ): Promise<LossResult & { outputs: { logprobs: Float32Array }[] | undefined; operation: Operation }> {
    const outputs = options?.returnOutputs ?? false;
    const flags = { forwardOnly: false, logprobs: outputs ? "rows" : undefined } as const;
    const pass = lossPass(samples, loss, flags, this.#context.core.wireFormat);
    const done = await runOperation(this.#context, pass, options, lossResult, ["returnOutputs"]);
    const rows = await done.logprobs?.rows();
    return {
      ...done.parts[0]!,
      outputs: rows?.map((logprobs) => ({ logprobs })),
      operation: done.operation,
    };
  }

  /**
   * Back-propagates gradients computed outside: `gradients` holds d loss / d logprob, one row per sample, one finite
   * value per target. They are applied as they are, and accumulate until the next `optimStep`; the service ignores
   * those at positions of weight 0, which must therefore be 0. A batch that is too large for one request goes out in
   * parts, whose gradients add up to the same.
   */
  async customForwardBackward(
    samples: SamplesLike,
    gradients: GradientsLike,
    options: OperationOptions = {},
  ): Promise<Operations> {
    const pass = customPass(samples, gradients, this.#context.core.wireFormat);
    const { operation, operations } = await runOperation(this.#context, pass, options, () => undefined);
    return { operation, operations };
  }

  /**
   * Checks and encodes samples ahead of `forward` and `customForwardBackward`, which then need not, while other calls
   * wait for the server. Settles when the text is there; it takes some 15 bytes a token until the samples are disposed or
   * forgotten.
   *
   * @throws {InputError} naming sample and position.
   */
  async prepareSamples(samples: readonly Sample[], options: CallOptions = {}): Promise<PreparedSamples> {
    const { core } = this.#context;
    return runCall("session.prepareSamples", options, core.timeoutMs, (call) =>
      call.until(prepare(core, samples, call.signal)),
    );
  }

  /** For what makes several passes over the same samples: see `withPrepared`. */
  static withPrepared<T>(
    session: Session,
    samples: SamplesLike,
    signal: AbortSignal | undefined,
    work: (prepared: PreparedSamples) => Promise<T>,
  ): Promise<T> {
    return withPrepared(session.#context.core, samples, signal, work);
  }

  /** Applies the accumulated gradients. `step` counts the session's steps. Does not publish weights for sampling. */
  async optimStep(
    optimizer: OptimizerOptions = {},
    options: OperationOptions = {},
  ): Promise<{ step: number; operation: Operation }> {
    const pass = smallPass("optim-step", "changes", () => optimStepFields(optimizer));
    return this.#one(pass, options, (output) => ({ step: output.at("step").integer() }));
  }

  /** Publishes the weights for sampling. `weightsVersion` is the version that samples then report. */
  async weightsSync(
    sync: WeightsSyncOptions = {},
    options: OperationOptions = {},
  ): Promise<{ weightsVersion: number; operation: Operation }> {
    const pass = smallPass("weights-sync", "changes", () => weightsSyncFields(sync));
    return this.#one(pass, options, (output) => ({
      weightsVersion: output.at("weights_version").integer(),
    }));
  }

  /** Samples completions of prompts, given as token ids. `results` has one entry per prompt. */
  async sample(
    prompts: readonly TokenRow[],
    sampling: SamplingOptions = {},
    options: OperationOptions = {},
  ): Promise<{ results: SampleResult[]; operation: Operation }> {
    const pass = samplePass(prompts, () => samplingFields(sampling));
    return this.#one(pass, options, (output) => ({ results: sampleResults(output, prompts.length) }));
  }

  /** Saves weights and optimizer, to resume from. Waits two hours by default. */
  async trainingCheckpoint(
    options: OperationOptions = {},
  ): Promise<{ checkpoint: Checkpoint; operation: Operation }> {
    return this.#checkpoint("training-checkpoint", options);
  }

  /** Saves weights to serve or download. Waits two hours by default. */
  async inferenceCheckpoint(
    options: OperationOptions = {},
  ): Promise<{ checkpoint: Checkpoint; operation: Operation }> {
    return this.#checkpoint("inference-checkpoint", options);
  }

  /**
   * Runs several operations as one change: nothing else that is called on the session goes out in between, and nothing
   * that was called behind it if it fails. `work` must use the session that it is given.
   */
  async together<T>(work: (session: Session) => Promise<T>, options: CallOptions = {}): Promise<T> {
    const name = "session.together";
    return this.#context.order.run("changes", name, (turn) =>
      runCall(name, options, Infinity, async (call) => {
        await turn.come(call);
        return work(new Session({ ...this.#context, order: new SessionOrder() }));
      }),
    );
  }

  /** Looks at an operation once, such as one whose call was aborted. */
  async getOperation(kind: OperationKind, id: string, options: CallOptions = {}): Promise<OperationInfo> {
    const { core, path } = this.#context;
    return runCall("session.getOperation", options, core.timeoutMs, async (call) =>
      operationInfo(await core.sender.send(operationRequest(path, kind, id), call), kind),
    );
  }

  async info(options: CallOptions = {}): Promise<SessionInfo> {
    return getSession(this.#context.core, this.id, options);
  }

  /** Changes name or metadata. What is left out stays, an empty string clears. */
  async update(changes: SessionUpdate, options: CallOptions = {}): Promise<SessionInfo> {
    return updateSession(this.#context.core, this.id, changes, options);
  }

  /** Detaches the session from its resource, which keeps running. */
  async stop(options: StopOptions = {}): Promise<SessionInfo> {
    return stopSession(this.#context.core, this.id, options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop({ wait: true });
  }

  async #score(
    samples: SamplesLike,
    logprobs: "rows" | "packed",
    options: ForwardOptions,
  ): Promise<LossResult & { logprobs: Logprobs } & Operations> {
    const { loss = { type: "cross_entropy" } } = options;
    const pass = lossPass(samples, loss, { forwardOnly: true, logprobs }, this.#context.core.wireFormat);
    const { parts, ...done } = await runOperation(this.#context, pass, options, lossResult, ["loss"]);
    return {
      loss: parts.reduce((sum, { loss }) => sum + loss, 0),
      metrics: parts.length === 1 ? parts[0]!.metrics : {},
      ...done,
      logprobs: done.logprobs!,
    };
  }

  async #one<T extends object>(
    asked: Asked,
    options: OperationOptions,
    read: (output: Answer) => T,
    names?: readonly string[],
  ): Promise<T & { operation: Operation }> {
    const { parts, operation } = await runOperation(this.#context, asked, options, read, names);
    return { ...parts[0]!, operation };
  }

  #checkpoint(kind: "training-checkpoint" | "inference-checkpoint", options: OperationOptions) {
    const timeoutMs = options.timeoutMs ?? Math.max(this.#context.core.timeoutMs, CHECKPOINT_TIMEOUT_MS);
    return this.#one(smallPass(kind, "reads"), { ...options, timeoutMs }, (output) => ({
      checkpoint: checkpoint(output.at("checkpoint")),
    }));
  }
}
