// Measures a stage: compares everyone's answers first, then lets them run in turns.
import { type Hold, longestHold } from "../hold.ts";
import { PeerError } from "../peer.ts";
import { type Summary, summarize } from "../statistics.ts";
import { inTurns } from "../turns.ts";
import type { WorkloadName } from "../workload.ts";
import { type Contestant, OURS, type StageName } from "./contestants.ts";
import type { Stage } from "./stages.ts";

export interface Effort {
  readonly rounds: number;
  /** How long a turn lasts; a run that has begun is finished. @unit milliseconds */
  readonly turn: number;
}

/** A stage on a workload. */
export interface Row {
  readonly stage: StageName;
  readonly workload: WorkloadName;
  /** Numbers that are more than a placeholder. */
  readonly values: number;
  /** By the contestants' titles. @unit milliseconds */
  readonly times: ReadonlyMap<string, Summary>;
  /** What a run of tokengrad takes of all CPUs together. @unit milliseconds */
  readonly cpu: number;
  /** How long tokengrad held the event loop. */
  readonly hold: Hold;
}

/**
 * A contestant that cannot do it is told of by `leaveOut`, and not measured.
 *
 * @throws if any answer is wrong.
 */
export async function measureStage(
  { name, workload, values, check, contestants }: Stage,
  { rounds, turn }: Effort,
  leaveOut: (contestant: Contestant, reason: string) => void,
): Promise<Row> {
  const running: Contestant[] = [];
  for (const contestant of contestants) {
    try {
      check(`${contestant.title}: ${name} at ${workload}`, await contestant.answer());
      running.push(contestant);
    } catch (error) {
      if (!(error instanceof PeerError)) throw error;
      leaveOut(contestant, error.message);
    }
  }
  const taken = await inTurns(running, rounds, (contestant) => contestant.turn(turn));
  const times = new Map([...taken].map(([{ title }, each]) => [title, summarize(each)]));
  const ours = running.find(({ title }) => title === OURS)!;
  const began = process.cpuUsage();
  const runs = (await ours.turn(turn)).length + 1;
  const { user, system } = process.cpuUsage(began);
  const cpu = (user + system) / 1e3 / runs;
  return { stage: name, workload, values, times, cpu, hold: await longestHold(async () => ours.run!()) };
}
