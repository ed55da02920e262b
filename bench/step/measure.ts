// Measures whole steps of a loss on a batch: compares what arrives at the trainer first, then lets everyone step in turns.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { checkAnswer, type Exact } from "../exact.ts";
import type { Hold } from "../hold.ts";
import { Peer, PeerError } from "../peer.ts";
import { type Summary, summarize } from "../statistics.ts";
import { inTurns } from "../turns.ts";
import type { Workload } from "../workload.ts";
import type { Contestant, Task } from "./contestants.ts";
import { received } from "./received.ts";
import { type Memory, PARTS, type StepTimes, type Turn } from "./times.ts";

export interface Effort {
  readonly rounds: number;
  /** How long a turn lasts; a step that has begun is finished. @unit milliseconds */
  readonly turn: number;
}

/** What was measured of one contestant. */
export interface Measured {
  /** What ran, as in `Python 3.11.7, torch 2.13.0`. */
  readonly version: string;
  readonly times: Readonly<Record<keyof StepTimes, Summary>>;
  readonly memory: Memory;
  /** Of a trained position on the wire. */
  readonly bytesPerGradient: number;
  /** How long a step held the event loop. */
  readonly hold: Hold | undefined;
}

/** A trainer and the batch that it answers for. */
export interface Ground {
  readonly trainer: Peer;
  readonly workload: Workload;
  readonly tokens: readonly Int32Array[];
}

interface Running {
  readonly contestant: Contestant;
  readonly peer: Peer;
  readonly bytesPerGradient: number;
}

/**
 * What was measured, by the contestants' titles. One that cannot run the task is told of by `leaveOut`.
 *
 * @throws if any answer is wrong.
 */
export async function measureSteps(
  contestants: readonly Contestant[],
  task: Task,
  ground: Ground,
  exact: Exact,
  effort: Effort,
  leaveOut: (contestant: Contestant, reason: string) => void,
): Promise<Map<string, Measured>> {
  const running: Running[] = [];
  try {
    for (const contestant of contestants) {
      const peer = await contestant.start(task);
      if (!(peer instanceof Peer)) {
        leaveOut(contestant, peer);
        continue;
      }
      try {
        running.push({
          contestant,
          peer,
          bytesPerGradient: await answer(contestant, peer, task, ground, exact),
        });
      } catch (error) {
        await peer[Symbol.asyncDispose]();
        if (!(error instanceof PeerError) || contestant.hasLoop) throw error;
        leaveOut(contestant, error.message);
      }
    }
    const taken = await inTurns(running, effort.rounds, async ({ peer }) => {
      const { times = [] } = await peer.ask<Turn>(`turn ${effort.turn}`);
      // The first step of a turn warms up, where there are others.
      return times.length > 1 ? times.slice(1) : times;
    });
    const measured = new Map<string, Measured>();
    for (const [{ contestant, peer, bytesPerGradient }, times] of taken) {
      const memory = (await peer.ask<Memory>("memory")) as Memory;
      const hold = contestant.hasLoop ? ((await peer.ask<Hold>("hold")) as Hold) : undefined;
      const { version } = peer;
      measured.set(contestant.title, { version, times: summaries(times), memory, bytesPerGradient, hold });
    }
    return measured;
  } finally {
    for (const { peer } of running) await peer[Symbol.asyncDispose]();
  }
}

/** Runs one step and compares what it brought to the trainer; bytes of a gradient. */
async function answer(
  { title, dtype }: Contestant,
  peer: Peer,
  { loss: name, folder }: Task,
  { trainer, workload, tokens }: Ground,
  exact: Exact,
): Promise<number> {
  const who = `${title}: ${name} at ${workload.name}`;
  const { loss = Number.NaN } = await peer.ask<Turn>("turn 0");
  await trainer.ask("last last.json");
  const text = readFileSync(join(folder, "last.json"), "latin1");
  const { gradients, bytesPerGradient } = received(who, text, workload, tokens);
  checkAnswer(who, { loss, gradients }, exact, dtype);
  return bytesPerGradient;
}

const summaries = (times: readonly StepTimes[]) =>
  Object.fromEntries(PARTS.map((part) => [part, summarize(times.map((step) => step[part]))])) as Record<
    keyof StepTimes,
    Summary
  >;
