// What is told of a step, between a contestant's process and its parent.

/** Milliseconds of the parts of a step. */
export interface StepTimes {
  /** The batch is scored. */
  readonly forward: number;
  /** Loss and gradients, from log-probabilities that the program holds to gradients that it holds. */
  readonly loss: number;
  /** The gradients are sent, with the samples. */
  readonly custom: number;
  readonly optim: number;
  readonly whole: number;
}

export const PARTS = ["forward", "loss", "custom", "optim", "whole"] as const satisfies (keyof StepTimes)[];

/** What a contestant answers to `turn MILLISECONDS`: steps until so much time has passed, at least one. */
export interface Turn {
  /** Of the last step. */
  readonly loss: number;
  readonly times: readonly StepTimes[];
}

/** What a contestant answers to `memory`: what its process holds. @unit MiB */
export interface Memory {
  /** Before its first step, with the batch loaded and the session open. */
  readonly before: number;
  /** At most, so far. */
  readonly peak: number;
}
