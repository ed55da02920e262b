// Checks what runs are called with: losses, batches, parameters.
import { describe, InputError } from "../errors.ts";
import type { Loss, LossInputs, LossParams } from "../loss/define.ts";
import { checkNames } from "../names.ts";
import { Batch, type BatchContents } from "./batch.ts";
import { checkLoss, type InputAxis, inputOf } from "./inputs.ts";
import type { Floats } from "./pack.ts";

/** The parameters of a loss that a run may change. */
export type GivenParams<P extends LossParams> = { readonly [Name in keyof P]?: number } | undefined;

/** What a batch holds. */
export function contentsOf(batch: unknown): BatchContents {
  if (batch instanceof Batch) return Batch.contentsOf(batch);
  throw new InputError("batch", `expected what createBatch gives, got ${describe(batch)}`);
}

export function checkSignal(signal: unknown): asserts signal is AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return;
  throw new InputError("signal", `expected an AbortSignal, got ${describe(signal)}`);
}

/** The values of the parameters, by name. */
export function readParams(loss: Loss, given: unknown = {}): Record<string, number> {
  checkNames("params", given, Object.keys(loss.params));
  const values: Record<string, number> = { ...loss.params };
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) continue;
    if (typeof value !== "number" || !Number.isFinite(value)) {
      throw new InputError(`params.${name}`, `expected a finite number, got ${describe(value)}`);
    }
    values[name] = value;
  }
  return values;
}

/** The arrays for each input of a loss, in the order of its graph. */
export function inputArrays(loss: Loss, contents: BatchContents, params: Record<string, number>): Floats[] {
  return loss.graph.inputs.map(({ name, axis }) =>
    axis === "batch" ? Float64Array.of(params[name]!) : inputOf(loss, contents, name, axis),
  );
}

/**
 * Checks, before any log-probability is known, that a batch has what a loss declares and that the parameters are its
 * own.
 *
 * @throws {InputError} naming the input or parameter.
 */
export function checkBatch<I extends LossInputs, P extends LossParams, M extends string>(
  loss: Loss<I, P, M>,
  batch: Batch,
  params: GivenParams<P> = {},
): void {
  checkLoss(loss);
  readParams(loss, params);
  const contents = contentsOf(batch);
  for (const [name, { axis }] of Object.entries(loss.inputs))
    inputOf(loss, contents, name, axis as InputAxis);
  const members = loss.graph.nodes.flatMap(({ op, attributes }) =>
    op === "member" ? [attributes.index! + 1] : [0],
  );
  const needed = Math.max(...members);
  const { groupSizes } = contents.layout;
  const small = groupSizes.findIndex((size) => size < needed);
  if (small >= 0) {
    throw new InputError(
      "groups",
      `group ${small}: expected at least ${needed} samples, got ${groupSizes[small]}`,
    );
  }
}
