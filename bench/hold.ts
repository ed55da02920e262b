// How long some work holds the event loop.
import { closeSync, openSync, readSync } from "node:fs";
import { type PerformanceEntry, PerformanceObserver, performance } from "node:perf_hooks";
import { setTimeout } from "node:timers/promises";

/** The longest time of a piece of work in which nothing else could run. @unit milliseconds */
export interface Hold {
  /** Of the code alone: without V8's collections, whose length goes by what else the program keeps. */
  readonly code: number;
  /** Without the time in which other threads and programs had the CPU; where the system does not tell, as `whole`. */
  readonly own: number;
  readonly whole: number;
}

/** Runs that the medians are taken of, so that a pause that something else made is not taken for one of the work. */
const RUNS = 5;

/** Medians of some runs. */
export async function longestHold(work: () => Promise<unknown>): Promise<Hold> {
  const holds: Hold[] = [];
  for (let run = 0; run < RUNS; run++) holds.push(await longestOf(work));
  const median = (part: keyof Hold) => holds.map((hold) => hold[part]).sort((a, b) => a - b)[RUNS >> 1]!;
  return { code: median("code"), own: median("own"), whole: median("whole") };
}

/** What was active from one look to the next: one turn of the event loop, or several short ones. */
interface Turn {
  readonly from: number;
  readonly to: number;
  readonly active: number;
  readonly waited: number;
}

async function longestOf(work: () => Promise<unknown>): Promise<Hold> {
  const waiting = new WaitingTime();
  const collections: PerformanceEntry[] = [];
  const observer = new PerformanceObserver((list) => collections.push(...list.getEntries()));
  observer.observe({ entryTypes: ["gc"] });
  const turns: Turn[] = [];
  const now = () => ({
    time: performance.now(),
    active: performance.eventLoopUtilization().active,
    waited: waiting.read(),
  });
  let last = now();
  const look = () => {
    const next = now();
    turns.push({
      from: last.time,
      to: next.time,
      active: next.active - last.active,
      waited: next.waited - last.waited,
    });
    last = next;
  };
  const timer = setInterval(look, 1);
  try {
    await work();
    look();
  } finally {
    clearInterval(timer);
    waiting.close();
    // Collections are told of later.
    await setTimeout(10);
    observer.disconnect();
  }
  const longest = (of: (turn: Turn) => number) => turns.reduce((most, turn) => Math.max(most, of(turn)), 0);
  const collecting = ({ from, to }: Turn) =>
    collections.reduce(
      (sum, { startTime, duration }) => (startTime >= from && startTime < to ? sum + duration : sum),
      0,
    );
  return {
    code: longest((turn) => turn.active - turn.waited - collecting(turn)),
    own: longest(({ active, waited }) => active - waited),
    whole: longest(({ active }) => active),
  };
}

/** The time in which the main thread could have run and had to wait for a CPU; 0 where the system does not tell. */
class WaitingTime {
  readonly #file: number | undefined;
  readonly #text = Buffer.alloc(128);

  constructor() {
    try {
      this.#file = openSync(`/proc/self/task/${process.pid}/schedstat`, "r");
    } catch {
      this.#file = undefined;
    }
  }

  /** @unit milliseconds */
  read(): number {
    if (this.#file === undefined) return 0;
    const length = readSync(this.#file, this.#text, 0, this.#text.length, 0);
    return Number(this.#text.toString("latin1", 0, length).split(" ")[1]) / 1e6;
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
  }
}
