// Runs small losses given in place, on one executor, and reads their gradients as plain rows.
import { type BatchOptions, createBatch } from "../../src/engine/batch.ts";
import type { Precision } from "../../src/engine/binding.ts";
import type { Engine } from "../../src/engine/engine.ts";
import type { RunOptions } from "../../src/engine/options.ts";
import type { Loss, LossInputs, LossParams } from "../../src/loss/define.ts";
import { type EngineName, EXECUTIONS } from "../engine/ops/batch.ts";

export type Execution = (typeof EXECUTIONS)[number];

/** A number whose exponential overflows. */
export const FAR: Readonly<Record<Precision, number>> = { float32: 100, float64: 800 };

/** Those that run the program's own gradient, in which 0 annihilates whatever it is multiplied by. */
export const OWN = EXECUTIONS.filter(({ executor }) => executor !== "autograd");

/** Runs a loss on an executor; gradients come in the precision that it computes in. */
export const runner =
  (engines: Record<EngineName, Engine>, { executor, precision }: Execution) =>
  async <I extends LossInputs, P extends LossParams, M extends string>(
    loss: Loss<I, P, M>,
    batch: BatchOptions,
    options: RunOptions<P> = {},
  ) => {
    const result = await engines[executor].run(loss, await createBatch({ precision, ...batch }), {
      dtype: precision,
      ...options,
    });
    return { ...result, gradients: [...result.gradients].map((row) => [...row]) };
  };
