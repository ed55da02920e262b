// Measures a loss on a batch: compares everyone's answers first, then lets them run in turns.
import { setTimeout as sleep } from "node:timers/promises";
import type { Answer, Contestant, Task } from "./contestants.ts";
import { PeerError } from "./peer.ts";
import { type Summary, summarize } from "./statistics.ts";

/** Largest difference from the exact answer, relative to the largest gradient, and to the loss or to 1. */
const TOLERANCE = 2e-5;
/** Milliseconds between turns, in which the threads of the one before go to sleep. */
const PAUSE = 20;

/** An answer in float64. */
export interface Exact {
  readonly loss: number;
  readonly gradients: Float64Array;
}

export interface Effort {
  readonly rounds: number;
  /** Runs of each contestant in a round. */
  readonly runs: number;
}

/** What was measured, by the contestants' titles. Milliseconds. */
export interface Measured {
  readonly times: ReadonlyMap<string, Summary>;
  /** The run that gave the answer: the first one of its kind. */
  readonly first: ReadonlyMap<string, number>;
}

/** Throws unless an answer is near enough to the exact one. */
function check(who: string, answer: Answer, exact: Exact): void {
  const { gradients } = exact;
  if (answer.gradients.length !== gradients.length) {
    throw new Error(`${who}: expected ${gradients.length} gradients, got ${answer.gradients.length}`);
  }
  let largest = 0;
  let difference = 0;
  for (let i = 0; i < gradients.length; i++) {
    largest = Math.max(largest, Math.abs(gradients[i]!));
    difference = Math.max(difference, Math.abs(answer.gradients[i]! - gradients[i]!));
  }
  const ofLoss = Math.abs(answer.loss - exact.loss) / Math.max(1, Math.abs(exact.loss));
  const error = Math.max(difference / largest, ofLoss);
  if (!(error < TOLERANCE)) throw new Error(`${who}: expected an answer within ${TOLERANCE}, got ${error}`);
}

/**
 * A contestant that cannot run the task is told of by `leaveOut`, and not measured.
 *
 * @throws if any answer is wrong.
 */
export async function measure(
  contestants: readonly Contestant[],
  task: Task,
  exact: Exact,
  { rounds, runs }: Effort,
  leaveOut: (contestant: Contestant, reason: string) => void,
): Promise<Measured> {
  const first = new Map<string, number>();
  const running: { contestant: Contestant; times: number[] }[] = [];
  for (const contestant of contestants) {
    try {
      const answer = await contestant.answer(task);
      check(`${contestant.title}: ${task.name} at ${task.workload}`, answer, exact);
      first.set(contestant.title, answer.first);
      running.push({ contestant, times: [] });
    } catch (error) {
      if (!(error instanceof PeerError)) throw error;
      leaveOut(contestant, error.message);
    }
  }
  for (let round = 0; round < rounds; round++) {
    for (const { contestant, times } of running) {
      await sleep(PAUSE);
      times.push(...(await contestant.time(task, runs)));
    }
  }
  const times = new Map(running.map(({ contestant, times }) => [contestant.title, summarize(times)]));
  return { times, first };
}
