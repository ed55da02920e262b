// A training session: the operations that score, train, publish and sample.

import { InputError } from "../errors.ts";
import { type Body, BodyWriter, jsonBody } from "./body.ts";
import type { Call, CallOptions } from "./call.ts";
import { checkGradients, type GradientsLike } from "./gradients.ts";
import { CUSTOM, type LossConfig, type LossPlan, planLoss } from "./loss.ts";
import {
  type Core,
  type Finished,
  type Operation,
  type OperationOptions,
  runOperation,
} from "./operation.ts";
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
  logprobRows,
  lossResult,
  type SampleResult,
  sampleResults,
} from "./results.ts";
import { checkSamples, checkTokens, type Sample, type TokenRow } from "./sample.ts";
import { getSession, type SessionInfo, sessionPath, stopSession } from "./session-info.ts";
import { EITHER_FORMAT, type WireFormat, writeGradients, writeModelInput, writeSamples } from "./wire.ts";

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

export class Session {
  readonly id: string;
  readonly #core: Core;
  readonly #path: string;

  /** Made by `client.sessions`. */
  constructor(core: Core, id: string) {
    this.#core = core;
    this.id = id;
    this.#path = sessionPath(id);
  }

  /**
   * Scores a batch without accumulating gradients. `logprobs` has one row per sample, one value per target; positions
   * of weight 0 hold 0.
   */
  async forward(
    samples: readonly Sample[],
    options: ForwardOptions = {},
  ): Promise<LossResult & { logprobs: Float32Array[]; operation: Operation }> {
    const plan = planLoss(options.loss ?? { type: "cross_entropy" });
    const flags = { forward_only: true, return_loss_fn_outputs: true };
    return this.#pass(samples, plan, flags, options, ({ output, operation }) => ({
      logprobs: logprobRows(output, samples),
      ...lossResult(output),
      operation,
    }));
  }

  /** Runs a built-in loss and accumulates its gradients until the next `optimStep`. */
  async forwardBackward(
    samples: readonly Sample[],
    loss: LossConfig,
    options: ForwardBackwardOptions = {},
  ): Promise<LossResult & { outputs: { logprobs: Float32Array }[] | undefined; operation: Operation }> {
    const flags = options.returnOutputs ? { return_loss_fn_outputs: true } : {};
    return this.#pass(samples, planLoss(loss), flags, options, ({ output, operation }) => ({
      ...lossResult(output),
      outputs: options.returnOutputs
        ? logprobRows(output, samples).map((logprobs) => ({ logprobs }))
        : undefined,
      operation,
    }));
  }

  /**
   * Back-propagates gradients computed outside: `gradients` holds d loss / d logprob, one row per sample, one finite
   * value per target. They are applied as they are, and accumulate until the next `optimStep`; the service ignores
   * those at positions of weight 0.
   */
  async customForwardBackward(
    samples: readonly Sample[],
    gradients: GradientsLike,
    options: OperationOptions = {},
  ): Promise<{ operation: Operation }> {
    checkSamples(samples, CUSTOM.rows);
    const rows = checkGradients(gradients, samples);
    const submission = {
      kind: "custom-forward-backward" as const,
      formats: this.#core.wireFormat.candidates(samples, CUSTOM),
      body: (call: Call, format: WireFormat) =>
        write(call, async (writer) => {
          await writeSamples(writer, samples, CUSTOM, format);
          writer.text(",");
          await writeGradients(writer, rows);
        }),
    };
    return runOperation(this.#core, this.#path, submission, options, ({ operation }) => ({ operation }));
  }

  /** Applies the accumulated gradients. `step` counts the session's steps. Does not publish weights for sampling. */
  async optimStep(
    optimizer: OptimizerOptions = {},
    options: OperationOptions = {},
  ): Promise<{ step: number; operation: Operation }> {
    return this.#small("optim-step", optimStepFields(optimizer), options, ({ output, operation }) => ({
      step: output.at("step").integer(),
      operation,
    }));
  }

  /** Publishes the weights for sampling. `weightsVersion` is the version that samples then report. */
  async weightsSync(
    sync: WeightsSyncOptions = {},
    options: OperationOptions = {},
  ): Promise<{ weightsVersion: number; operation: Operation }> {
    return this.#small("weights-sync", weightsSyncFields(sync), options, ({ output, operation }) => ({
      weightsVersion: output.at("weights_version").integer(),
      operation,
    }));
  }

  /** Samples completions of prompts, given as token ids. `results` has one entry per prompt. */
  async sample(
    prompts: readonly TokenRow[],
    sampling: SamplingOptions = {},
    options: OperationOptions = {},
  ): Promise<{ results: SampleResult[]; operation: Operation }> {
    const rest = JSON.stringify(samplingFields(sampling));
    if (!Array.isArray(prompts) || prompts.length === 0) {
      throw new InputError("prompts", "expected an array with at least one prompt");
    }
    for (const [index, prompt] of prompts.entries()) checkTokens(`prompts[${index}]`, prompt, {});
    const submission = {
      kind: "sample" as const,
      formats: EITHER_FORMAT,
      body: (call: Call) =>
        write(call, async (writer) => {
          writer.text('"model_inputs":[');
          for (const [index, prompt] of prompts.entries()) {
            if (index > 0) writer.text(",");
            await writeModelInput(writer, prompt, `prompts[${index}]`, index);
          }
          writer.text(`],${rest.slice(1, -1)}`);
        }),
    };
    return runOperation(this.#core, this.#path, submission, options, ({ output, operation }) => ({
      results: sampleResults(output, prompts.length),
      operation,
    }));
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

  async info(options: CallOptions = {}): Promise<SessionInfo> {
    return getSession(this.#core, this.id, options);
  }

  /** Detaches the session from its resource, which keeps running. */
  async stop(options: CallOptions = {}): Promise<SessionInfo> {
    return stopSession(this.#core, this.id, options);
  }

  #pass<T>(
    samples: readonly Sample[],
    plan: LossPlan,
    flags: object,
    options: OperationOptions,
    finish: (finished: Finished) => T,
  ): Promise<T> {
    checkSamples(samples, plan.rows);
    const head = JSON.stringify({ loss: plan.wire, ...flags }).slice(1, -1);
    const submission = {
      kind: "forward-backward" as const,
      formats: this.#core.wireFormat.candidates(samples, plan),
      body: (call: Call, format: WireFormat) =>
        write(call, (writer) => {
          writer.text(`${head},`);
          return writeSamples(writer, samples, plan, format);
        }),
    };
    return runOperation(this.#core, this.#path, submission, options, finish);
  }

  #checkpoint(kind: "training-checkpoint" | "inference-checkpoint", options: OperationOptions) {
    const timeoutMs = options.timeoutMs ?? Math.max(this.#core.timeoutMs, CHECKPOINT_TIMEOUT_MS);
    return this.#small(kind, undefined, { ...options, timeoutMs }, ({ output, operation }) => ({
      checkpoint: checkpoint(output.at("checkpoint")),
      operation,
    }));
  }

  #small<T>(
    kind: "optim-step" | "weights-sync" | "training-checkpoint" | "inference-checkpoint",
    body: object | undefined,
    options: OperationOptions,
    finish: (finished: Finished) => T,
  ): Promise<T> {
    const submission = { kind, formats: EITHER_FORMAT, body: () => body && jsonBody(body) };
    return runOperation(this.#core, this.#path, submission, options, finish);
  }
}

/** The body whose members `members` writes. */
async function write(call: Call, members: (writer: BodyWriter) => Promise<void>): Promise<Body> {
  const writer = new BodyWriter(() => call.check());
  writer.text("{");
  await members(writer);
  writer.text("}");
  return writer.finish();
}
