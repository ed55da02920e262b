// Measures a loss on a batch: compares everyone's answers first, then lets them run in turns.
import { checkAnswer, type Exact } from "../exact.ts";
import { PeerError } from "../peer.ts";
import { type Summary, summarize } from "../statistics.ts";
import { inTurns } from "../turns.ts";
import type { Contestant, Task } from "./contestants.ts";

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
  const running: Contestant[] = [];
  for (const contestant of contestants) {
    try {
      const answer = await contestant.answer(task);
      checkAnswer(`${contestant.title}: ${task.name} at ${task.workload}`, answer, exact);
      first.set(contestant.title, answer.first);
      running.push(contestant);
    } catch (error) {
      if (!(error instanceof PeerError)) throw error;
      leaveOut(contestant, error.message);
    }
  }
  const taken = await inTurns(running, rounds, (contestant) => contestant.time(task, runs));
  const times = new Map([...taken].map(([{ title }, times]) => [title, summarize(times)]));
  return { times, first };
}
