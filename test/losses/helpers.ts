// What the tests of ready losses share: short ways to run one.
import { type BatchInput, createBatch } from "../../src/engine/batch.ts";
import type { Engine } from "../../src/engine/engine.ts";
import type { Loss } from "../../src/loss/define.ts";

type Rows = readonly (readonly number[])[];

export interface Given {
  readonly logprobs: Rows;
  /** Default: every position counts 1. */
  readonly weights?: Rows;
  readonly groups?: number | readonly number[];
  readonly inputs?: Readonly<Record<string, BatchInput>>;
  readonly params?: Readonly<Record<string, number>>;
  readonly precision?: "float32" | "float64";
}

export const batchOf = ({ logprobs, weights, groups = 1, inputs = {}, precision = "float64" }: Given) =>
  createBatch({
    weights: weights ?? logprobs.map((row) => row.map(() => 1)),
    logprobs,
    groups,
    inputs,
    precision,
  });

/** Loss, metrics and gradients as plain numbers; in float64 unless told otherwise. */
export async function runLoss(engine: Engine, loss: Loss, given: Given) {
  const { params = {}, precision: dtype = "float64" } = given;
  const { gradients, ...result } = await engine.run(loss, await batchOf(given), { dtype, params });
  return { ...result, gradients: [...gradients].map((row) => [...row]) };
}
