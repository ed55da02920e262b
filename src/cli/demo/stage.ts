// What the stages of the demo share: where they run, and the loop that reports their steps.
import type { Client } from "../../client/client.ts";
import type { Session } from "../../client/session.ts";
import type { Engine } from "../../engine/engine.ts";
import { Progress } from "../progress.ts";

export interface Stage {
  readonly client: Client;
  readonly engine: Engine;
  readonly modelResourcesId: string;
  readonly random: () => number;
  readonly signal: AbortSignal;
}

/** A figure of the closing table, measured on what was held out of training. */
export interface Figure {
  readonly name: string;
  readonly before: number;
  readonly after: number;
  readonly better: "lower" | "higher";
  /** The best value there is, if there is one: nothing can be better. */
  readonly best?: number;
}

/** What a stage leaves behind. */
export interface StageResult {
  readonly checkpointId: string;
  readonly curve: readonly number[];
  readonly figure: Figure;
}

/** Runs a stage in a session of its own, which starts from a checkpoint's weights or from the untrained model. */
export async function inSession<T>(
  stage: Stage,
  checkpointId: string | undefined,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const { client, modelResourcesId, signal } = stage;
  const resume =
    checkpointId === undefined ? {} : { resumeFromCheckpointId: checkpointId, loadOptimizer: false };
  const session = await client.sessions.start({ modelResourcesId, ...resume }, { signal });
  try {
    return await work(session);
  } finally {
    await session.stop();
  }
}

export interface Step {
  /** The value that the curve shows. */
  readonly value: number;
  /** Tokens processed in the step. */
  readonly tokens: number;
}

/** Runs steps one after the other under a progress line; gives each step's value. */
export async function runSteps(
  label: string,
  valueName: string,
  total: number,
  signal: AbortSignal,
  step: (index: number) => Promise<Step>,
): Promise<number[]> {
  const progress = new Progress(label, total);
  const values: number[] = [];
  let tokens = 0;
  for (let index = 0; index < total; index++) {
    signal.throwIfAborted();
    const done = await step(index);
    values.push(done.value);
    tokens += done.tokens;
    progress.update({ done: index + 1, tokens, figures: { [valueName]: done.value } });
  }
  return values;
}

/** Steps of some passes over the items, so that few items are not learnt by heart; within bounds. */
export const stepsFor = (passes: number, items: number, batch: number, most: number): number =>
  Math.max(4, Math.min(most, Math.round((passes * items) / batch)));

/** A learning rate that rises over the first tenth of the steps and then falls along a cosine to a tenth. */
export function learningRate(peak: number, index: number, total: number): number {
  const warmUp = Math.max(1, Math.round(total / 10));
  if (index < warmUp) return (peak * (index + 1)) / warmUp;
  const part = (index - warmUp) / Math.max(1, total - warmUp);
  return peak * (0.1 + 0.45 * (1 + Math.cos(Math.PI * part)));
}
