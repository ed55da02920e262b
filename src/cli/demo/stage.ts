// What the stages of the demo share: where they run, and how a session is trained, measured and saved.
import type { Client } from "../../client/client.ts";
import type { Session } from "../../client/session.ts";
import type { Engine } from "../../engine/engine.ts";
import { Progress } from "../../progress.ts";

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

/** What one step sent to the trainer. */
export interface Step {
  /** The value that the curve shows. */
  readonly value: number;
  /** Tokens processed in the step. */
  readonly tokens: number;
}

/** How a session is trained. */
export interface Training {
  /** Name of the progress line, and of the value that it shows. */
  readonly label: string;
  readonly valueName: string;
  readonly steps: number;
  readonly peakLearningRate: number;
  readonly figure: Pick<Figure, "name" | "better" | "best">;
  /** Measures the figure on what is held out, before the first step and after the last. */
  readonly measure: () => Promise<number>;
  /** Sends the gradients of one step, which then are applied. */
  readonly accumulate: () => Promise<Step>;
}

/** Trains a session under a progress line, measures it before and after, and saves it. */
export async function train(session: Session, training: Training, signal: AbortSignal): Promise<StageResult> {
  const { label, valueName, steps, peakLearningRate, figure, measure, accumulate } = training;
  const before = await measure();
  const progress = new Progress(label, steps);
  const curve: number[] = [];
  let tokens = 0;
  for (let index = 0; index < steps; index++) {
    signal.throwIfAborted();
    const step = await accumulate();
    await session.optimStep(
      { adam: { learningRate: learningRate(peakLearningRate, index, steps) } },
      { signal },
    );
    curve.push(step.value);
    tokens += step.tokens;
    progress.update({ done: index + 1, tokens, figures: { [valueName]: step.value } });
  }
  const { checkpoint } = await session.trainingCheckpoint({ signal });
  return { checkpointId: checkpoint.id, curve, figure: { ...figure, before, after: await measure() } };
}

/** Steps of some passes over the items, so that few items are not learnt by heart; within bounds. */
export const stepsFor = (passes: number, items: number, batch: number, most: number): number =>
  Math.max(4, Math.min(most, Math.round((passes * items) / batch)));

/** A learning rate that rises over the first tenth of the steps and then falls along a cosine to a tenth. */
function learningRate(peak: number, index: number, total: number): number {
  const warmUp = Math.max(1, Math.round(total / 10));
  if (index < warmUp) return (peak * (index + 1)) / warmUp;
  const part = (index - warmUp) / Math.max(1, total - warmUp);
  return peak * (0.1 + 0.45 * (1 + Math.cos(Math.PI * part)));
}
