// A batch: the trained tokens of some samples, packed once and run as often as wanted.
import { blocks } from "../blocks.ts";
import { describe, InputError } from "../errors.ts";
import type { Loss } from "../loss/define.ts";
import { checkNames } from "../names.ts";
import { Pace } from "../pace.ts";
import { type RowLayout, readRowLayout } from "../rows/layout.ts";
import type { Row } from "../rows/rows.ts";
import type { Precision } from "./binding.ts";
import { EmptyBatchError } from "./errors.ts";
import { checkLoss, type Reading, readInputs, type StoredInput } from "./inputs.ts";
import { type Layout, readGroups } from "./layout.ts";
import { packRows } from "./pack.ts";
import { countPositives } from "./positives.ts";

/**
 * Numbers per token (full rows, one per sample, or one flat list of the trained tokens only), per sample or per group
 * (one flat list each). The loss decides which it is.
 */
export type BatchInput = readonly Row[] | Row;

export interface BatchOptions {
  /**
   * One row per sample, with one weight per target position. A position of weight 0 is not trained: it takes no part in
   * the loss and its gradient is 0. Negative and non-finite weights are refused.
   */
  readonly weights: readonly Row[];
  /**
   * Log-probabilities of the policy, in natural units: full rows, or one flat list of the trained tokens only. May be
   * added later by `batch.with`; a run needs them.
   */
  readonly logprobs?: BatchInput | undefined;
  /** Samples per group: one size for all, or a list of sizes. Default: every sample is its own group. */
  readonly groups?: number | readonly number[] | undefined;
  /** The other inputs of the loss, by name. */
  readonly inputs?: Readonly<Record<string, BatchInput>> | undefined;
  /** Type of all values per token; values per sample, group and batch are always float64. Default `float32`. */
  readonly precision?: Precision | undefined;
  /**
   * Whether log-probabilities above 0, which rounding in the trainer may give for a certain token, are held at 0. By
   * default and with `false` they are used as they are; by default the first of them in a process cause a warning.
   */
  readonly clampLogprobs?: boolean | undefined;
  /**
   * The loss that the batch is for, if it is for one alone: what its inputs declare is then all that is accepted of them,
   * and all that is kept.
   */
  readonly loss?: Loss | undefined;
}

/** What the engine reads of a batch. */
export interface BatchContents {
  readonly layout: Layout;
  readonly precision: Precision;
  /** `logprobs`, `weights` and the other inputs. */
  readonly inputs: ReadonlyMap<string, StoredInput>;
}

const OPTIONS = ["weights", "logprobs", "groups", "inputs", "precision", "clampLogprobs", "loss"];

/** How a batch reads what it is given, now and later. */
interface BatchReading extends Reading {
  readonly clampLogprobs: boolean | undefined;
}

/** Packed samples. Nothing of what it was made from is referenced any more. */
export class Batch {
  /** Number of samples. */
  readonly samples: number;
  /** Number of positions with a weight above 0, over all samples. */
  readonly trainedTokens: number;
  /** Number of samples without a trained token. Their means are 0 and their gradients too. */
  readonly emptySamples: number;
  /** Number of log-probabilities above 0 that were given for trained tokens; see `BatchOptions.clampLogprobs`. */
  readonly positiveLogprobs: number;
  readonly precision: Precision;
  readonly #reading: BatchReading;
  readonly #inputs: ReadonlyMap<string, StoredInput>;

  /** Use `createBatch`. */
  constructor(reading: BatchReading, inputs: ReadonlyMap<string, StoredInput>, positiveLogprobs: number) {
    const { layout, precision } = reading;
    this.samples = layout.rowLengths.length;
    this.trainedTokens = layout.tokens;
    this.emptySamples = layout.emptySamples;
    this.positiveLogprobs = positiveLogprobs;
    this.precision = precision;
    this.#reading = reading;
    this.#inputs = inputs;
  }

  static contentsOf(batch: Batch): BatchContents {
    const { layout, precision } = batch.#reading;
    return { layout, precision, inputs: batch.#inputs };
  }

  /**
   * The same samples with other values: what is given replaces, or adds to, what was there. Weights and groups stay.
   *
   * @throws {InputError} as `createBatch` does.
   */
  async with(changes: Pick<Partial<BatchOptions>, "logprobs" | "inputs">): Promise<Batch> {
    checkNames("with", changes, ["logprobs", "inputs"]);
    return filled(this.#reading, this.#inputs, this.positiveLogprobs, changes, new Pace());
  }

  /**
   * Hands the memory of a batch's tokens on to the next one. Only where no run reads it any more, and once for all batches
   * that were made of each other by `scored`.
   */
  static recycle(batch: Batch): void {
    const tokens = [...batch.#inputs.values()].flatMap(({ token }) => token ?? []);
    blocks.give(tokens.map(({ buffer }) => buffer as ArrayBuffer));
  }

  /** `batch` with log-probabilities of its trained tokens, which are finite; the memory is the new batch's from now on. */
  static async scored(batch: Batch, logprobs: Float32Array): Promise<Batch> {
    const { layout, clampLogprobs } = batch.#reading;
    const positive = await countPositives(logprobs, layout, clampLogprobs, new Pace());
    const came = `${logprobs.length} numbers`;
    return new Batch(
      batch.#reading,
      new Map([...batch.#inputs, ["logprobs", { token: logprobs, came }]]),
      positive,
    );
  }
}

/** A batch of some inputs and of others that are read now. */
async function filled(
  reading: BatchReading,
  inputs: ReadonlyMap<string, StoredInput>,
  positiveLogprobs: number,
  given: Pick<Partial<BatchOptions>, "logprobs" | "inputs">,
  pace: Pace,
): Promise<Batch> {
  const added = await readInputs(given, reading, pace);
  const logprobs = added.get("logprobs")?.token;
  const positive =
    logprobs === undefined
      ? positiveLogprobs
      : await countPositives(logprobs, reading.layout, reading.clampLogprobs, pace);
  return new Batch(reading, new Map([...inputs, ...added]), positive);
}

/**
 * Checks, packs and copies a batch. The arrays may be changed or reused once the promise has settled, not before. Large
 * batches are read a piece at a time, so that the event loop is never held for long.
 *
 * @throws {InputError} with path, sample and position where something has the wrong type, length or value.
 * @throws {EmptyBatchError} if no weight is above 0.
 */
export async function createBatch(options: BatchOptions): Promise<Batch> {
  checkOptions(options);
  const { weights } = options;
  if (!Array.isArray(weights) || weights.length === 0) {
    throw new InputError("weights", `expected one row of weights per sample, got ${describe(weights)}`);
  }
  const pace = new Pace();
  const groupSizes = readGroups(options.groups, weights.length);
  const rows = await readRowLayout(weights, () => "weights", pace);
  return laidOut({ ...rows, groupSizes }, options, pace);
}

/** A batch of rows whose layout is known, which is that of `options.weights`. */
export async function createBatchOfRows(rows: RowLayout, options: BatchOptions): Promise<Batch> {
  checkOptions(options);
  const groupSizes = readGroups(options.groups, rows.rowLengths.length);
  return laidOut({ ...rows, groupSizes }, options, new Pace());
}

function checkOptions(options: BatchOptions): void {
  checkNames("batch", options, OPTIONS);
  const { precision = "float32", clampLogprobs, loss } = options;
  if (precision !== "float32" && precision !== "float64") {
    throw new InputError("precision", `expected "float32" or "float64", got ${describe(precision)}`);
  }
  if (clampLogprobs !== undefined && typeof clampLogprobs !== "boolean") {
    throw new InputError("clampLogprobs", `expected true or false, got ${describe(clampLogprobs)}`);
  }
  if (loss !== undefined) checkLoss(loss);
}

async function laidOut(layout: Layout, options: BatchOptions, pace: Pace): Promise<Batch> {
  if (layout.tokens === 0) throw new EmptyBatchError(layout.rowLengths.length);
  const { precision = "float32", clampLogprobs, loss } = options;
  const weights = await packRows("weights", options.weights, layout, precision, pace);
  const reading = { layout, precision, loss, clampLogprobs };
  const inputs = new Map([["weights", { token: weights, came: "rows" }]]);
  return filled(reading, inputs, 0, options, pace);
}
