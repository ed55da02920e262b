// One step of a custom loss: score the batch, compute the loss and its gradients here, send the gradients back.
import type { CallOptions } from "../client/call.ts";
import type { OperationOptions } from "../client/operation.ts";
import { PreparedSamples, type SamplesLike } from "../client/prepared.ts";
import { type Operations, Session } from "../client/session.ts";
import { checkBatch } from "../engine/arguments.ts";
import { Batch, type BatchInput, createBatchOfRows } from "../engine/batch.ts";
import { Engine } from "../engine/engine.ts";
import { DisposedError } from "../engine/errors.ts";
import type { Gradients } from "../engine/gradients.ts";
import type { RunOptions } from "../engine/options.ts";
import { describe, InputError } from "../errors.ts";
import type { Loss, LossInputs, LossParams } from "../loss/define.ts";
import { checkNames } from "../names.ts";

/**
 * The model's log-probabilities of a batch, one row per sample, one value per target position; 0 where the weight is 0.
 * Accumulates no gradients. Use it to snapshot a frozen reference once before training.
 */
export async function computeLogprobs(
  session: Session,
  samples: SamplesLike,
  options: OperationOptions = {},
): Promise<Float32Array[]> {
  return (await session.forward(samples, options)).logprobs;
}

/** Options of `computeCustomForwardBackward`; `timeoutMs` holds for each of its two operations. */
export interface CustomForwardBackwardOptions<
  I extends LossInputs,
  P extends LossParams,
  D extends GradientDtype = GradientDtype,
> extends CallOptions {
  /** Computes the loss and its gradients. */
  readonly engine: Engine;
  /**
   * What the loss declared as inputs. Per token: one row per sample, of full length, or one flat array of the trained
   * tokens; per sample or group: one number each.
   */
  readonly inputs?: { readonly [Name in keyof I]: BatchInput } | undefined;
  /** Values for this step; those left out keep the loss's defaults. */
  readonly params?: { readonly [Name in keyof P]?: number } | undefined;
  /** Samples per group, one number for all or a list of sizes: 2 for preference pairs. Default 1. */
  readonly groups?: number | readonly number[] | undefined;
  /** Type of the gradients that are sent. Default `float32`. */
  readonly dtype?: D | undefined;
  /** What to do about samples whose values are not finite; see `RunOptions.nonFinite`. Default `throw`. */
  readonly nonFinite?: RunOptions["nonFinite"];
  /** Whether log-probabilities above 0 are held at 0; see `BatchOptions.clampLogprobs`. Default false. */
  readonly clampLogprobs?: boolean | undefined;
  /** Gradients of an earlier step whose memory is used again; see `RunOptions.into`. */
  readonly into?: Gradients<D> | undefined;
}

type GradientDtype = "float32" | "bfloat16";

const OPTIONS = [
  "engine",
  "inputs",
  "params",
  "groups",
  "dtype",
  "nonFinite",
  "clampLogprobs",
  "into",
  "signal",
  "timeoutMs",
] as const satisfies readonly (keyof CustomForwardBackwardOptions<LossInputs, LossParams>)[];

export interface CustomForwardBackwardResult<M extends string, D extends GradientDtype = GradientDtype>
  extends Operations {
  /** The loss. The service does not report one for a custom pass, so this is the only record of it. */
  readonly loss: number;
  /** The loss's metrics by name; they may be infinite or NaN. */
  readonly metrics: { readonly [Name in M]: number };
  /** What was sent: d loss / d logprob, one row per sample. */
  readonly gradients: Gradients<D>;
  /** Number of samples without a trained token. */
  readonly emptySamples: number;
  /** The samples that `nonFinite` has set aside. */
  readonly nonFiniteSamples: readonly number[];
}

/**
 * Scores `samples`, runs `loss` on their log-probabilities and posts its gradients, which accumulate on the trainer
 * until `session.optimStep`.
 *
 * Everything that can be checked is checked before the first request; nothing is posted unless loss and gradients are
 * finite. A step may be called behind it without waiting: it goes out when the gradients are there, and not at all if
 * anything fails before.
 *
 * @throws {InputError} if samples, inputs, groups or parameters do not fit, naming sample and position.
 * @throws {EmptyBatchError} if no weight is above 0.
 * @throws {NonFiniteError} if the loss or a gradient is not finite.
 * @throws {TokengradError} of the client, if one of the two operations fails, is stopped or takes too long.
 */
export async function computeCustomForwardBackward<
  I extends LossInputs,
  P extends LossParams,
  M extends string,
  D extends GradientDtype = "float32",
>(
  session: Session,
  samples: SamplesLike,
  loss: Loss<I, P, M>,
  options: CustomForwardBackwardOptions<I, P, D>,
): Promise<CustomForwardBackwardResult<M, D>> {
  // Scoring and gradients are one change: a step that is called behind them goes out behind them, or not at all.
  return session.together(
    async (inTurn) => {
      checkNames("options", options, OPTIONS);
      checkEngine(options.engine, options.dtype);
      return Session.withPrepared(inTurn, samples, options.signal, (prepared) =>
        step(inTurn, prepared, loss, options),
      );
    },
    { signal: options.signal },
  );
}

async function step<I extends LossInputs, P extends LossParams, M extends string, D extends GradientDtype>(
  session: Session,
  prepared: PreparedSamples,
  loss: Loss<I, P, M>,
  options: CustomForwardBackwardOptions<I, P, D>,
): Promise<CustomForwardBackwardResult<M, D>> {
  const { engine, inputs, params, groups, dtype = "float32" as D, ...rest } = options;
  const { nonFinite, clampLogprobs, into, ...call } = rest;
  const encoded = PreparedSamples.encodedOf(prepared);
  const { weights } = encoded.checked;
  const layout = await encoded.layout();
  const unscored = await createBatchOfRows(layout, { weights, groups, inputs, clampLogprobs, loss });
  checkBatch(loss, unscored, params);
  const { logprobs } = await session.forwardPacked(prepared, call);
  const batch = await Batch.scored(unscored, logprobs);
  const run = { params, dtype, nonFinite, into, signal: call.signal };
  const { gradients, executor: _, ...result } = await engine.run(loss, batch, run);
  Batch.recycle(batch);
  const sent = await session.customForwardBackward(prepared, gradients, call);
  return { ...result, gradients, ...sent };
}

function checkEngine(engine: Engine, dtype: GradientDtype = "float32"): void {
  if (!(engine instanceof Engine)) {
    throw new InputError("engine", `expected what createEngine resolves to, got ${describe(engine)}`);
  }
  if (engine.disposed) throw new DisposedError("engine");
  if (dtype !== "float32" && dtype !== "bfloat16") {
    throw new InputError("dtype", `expected "float32" or "bfloat16", got ${describe(dtype)}`);
  }
}
