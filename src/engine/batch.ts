// A batch: the trained tokens of some samples, packed once and run as often as wanted.
import { describe, InputError } from "../errors.ts";
import type { Axis } from "../loss/graph.ts";
import { checkNames } from "../names.ts";
import type { Precision } from "./binding.ts";
import { type Layout, readLayout } from "./layout.ts";
import { Pace } from "./pace.ts";
import { copyFlat, type Floats, packRows } from "./pack.ts";
import { isNumberList, isRowList, type Row } from "./rows.ts";

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
}

/** What the engine reads of a batch. */
export interface BatchContents {
  readonly layout: Layout;
  readonly precision: Precision;
  /** `logprobs`, `weights` and the other inputs. */
  readonly inputs: ReadonlyMap<string, StoredInput>;
}

/** A copy of one input for each reading that its shape allows. */
export interface StoredInput {
  /** In the batch's precision, packed. */
  readonly token?: Floats;
  readonly sample?: Float64Array;
  readonly group?: Float64Array;
  /** What came, for messages. */
  readonly came: string;
}

const OPTIONS = ["weights", "logprobs", "groups", "inputs", "precision"];

/** Reads one input. A flat list is kept in every way that its length allows. */
async function readInput(
  path: string,
  value: unknown,
  layout: Layout,
  precision: Precision,
  pace: Pace,
): Promise<StoredInput> {
  const came = describe(value);
  if (isRowList(value)) return { token: await packRows(path, value, layout, precision, pace), came };
  const counts = {
    token: layout.tokens,
    sample: layout.rowLengths.length,
    group: layout.groupSizes.length,
  };
  if (!isNumberList(value) || !Object.values(counts).includes(value.length)) {
    throw new InputError(
      path,
      `expected ${counts.sample} rows of full length, or a flat list of ${counts.token} numbers (one per trained token), ` +
        `${counts.sample} (per sample) or ${counts.group} (per group), got ${came}`,
    );
  }
  const wide = async () => (await copyFlat(path, value, "float64", pace)) as Float64Array;
  return {
    ...(value.length === counts.token && { token: await copyFlat(path, value, precision, pace) }),
    ...(value.length === counts.sample && { sample: await wide() }),
    ...(value.length === counts.group && { group: await wide() }),
    came,
  };
}

async function readInputs(
  given: { readonly logprobs?: unknown; readonly inputs?: unknown },
  layout: Layout,
  precision: Precision,
  pace: Pace,
): Promise<Map<string, StoredInput>> {
  const inputs = new Map<string, StoredInput>();
  if (given.logprobs !== undefined) {
    const logprobs = await readInput("logprobs", given.logprobs, layout, precision, pace);
    if (logprobs.token === undefined) {
      throw new InputError(
        "logprobs",
        `expected full rows or ${layout.tokens} numbers, got ${logprobs.came}`,
      );
    }
    inputs.set("logprobs", logprobs);
  }
  const others = given.inputs ?? {};
  if (typeof others !== "object" || Array.isArray(others)) {
    throw new InputError("inputs", `expected an object of inputs by name, got ${describe(others)}`);
  }
  for (const [name, value] of Object.entries(others)) {
    if (name === "logprobs" || name === "weights") {
      throw new InputError(`inputs.${name}`, `expected it as an option of its own, not among the inputs`);
    }
    inputs.set(name, await readInput(`inputs.${name}`, value, layout, precision, pace));
  }
  return inputs;
}

/** Packed samples. Nothing of what it was made from is referenced any more. */
export class Batch {
  /** Number of samples. */
  readonly samples: number;
  /** Number of positions with a weight above 0, over all samples. */
  readonly trainedTokens: number;
  /** Number of samples without a trained token. Their means are 0 and their gradients too. */
  readonly emptySamples: number;
  readonly precision: Precision;
  readonly #contents: BatchContents;

  /** Use `createBatch`. */
  constructor(contents: BatchContents) {
    this.samples = contents.layout.rowLengths.length;
    this.trainedTokens = contents.layout.tokens;
    this.emptySamples = contents.layout.emptySamples;
    this.precision = contents.precision;
    this.#contents = contents;
  }

  static contentsOf(batch: Batch): BatchContents {
    return batch.#contents;
  }

  /**
   * The same samples with other values: what is given replaces, or adds to, what was there. Weights and groups stay.
   *
   * @throws {InputError} as `createBatch` does.
   */
  async with(changes: Pick<Partial<BatchOptions>, "logprobs" | "inputs">): Promise<Batch> {
    checkNames("with", changes, ["logprobs", "inputs"]);
    const { layout, precision, inputs } = this.#contents;
    const changed = await readInputs(changes, layout, precision, new Pace());
    return new Batch({ layout, precision, inputs: new Map([...inputs, ...changed]) });
  }
}

/** What an input holds for an axis. */
export function inputOf(contents: BatchContents, name: string, axis: Axis): Floats {
  const path = name === "logprobs" || name === "weights" ? name : `inputs.${name}`;
  const input = contents.inputs.get(name);
  const { layout } = contents;
  const expected = {
    token: `rows of full length or ${layout.tokens} numbers, one per trained token`,
    sample: `${layout.rowLengths.length} numbers, one per sample`,
    group: `${layout.groupSizes.length} numbers, one per group`,
    batch: "a number",
  }[axis];
  const values = axis === "batch" ? undefined : input?.[axis];
  if (values === undefined) {
    throw new InputError(path, `expected ${expected}, got ${input?.came ?? "nothing"}`);
  }
  return values;
}

/**
 * Checks, packs and copies a batch. The arrays may be changed or reused once the promise has settled, not before. Large
 * batches are read a piece at a time, so that the event loop is never held for long.
 *
 * @throws {InputError} with path, sample and position where something has the wrong type, length or value.
 * @throws {EmptyBatchError} if no weight is above 0.
 */
export async function createBatch(options: BatchOptions): Promise<Batch> {
  checkNames("batch", options, OPTIONS);
  const { precision = "float32" } = options;
  if (precision !== "float32" && precision !== "float64") {
    throw new InputError("precision", `expected "float32" or "float64", got ${describe(precision)}`);
  }
  const pace = new Pace();
  const layout = await readLayout(options.weights, options.groups, pace);
  const weights = await packRows("weights", options.weights, layout, precision, pace);
  const inputs = await readInputs(options, layout, precision, pace);
  return new Batch({
    layout,
    precision,
    inputs: new Map([["weights", { token: weights, came: "rows" }], ...inputs]),
  });
}
