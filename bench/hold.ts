// How long some work holds the event loop.
import { closeSync, openSync, readSync } from "node:fs";
import { performance } from "node:perf_hooks";

/** The longest time of a piece of work in which nothing else could run. @unit milliseconds */
export interface Hold {
  /** Without the time in which other threads and programs had the CPU; where the system does not tell, as `whole`. */
  readonly own: number;
  readonly whole: number;
}

/** Runs that the medians are taken of, so that a pause that something else made is not taken for one of the work. */
const RUNS = 5;

/** Medians of some runs. */
export async function longestHold(work: () => Promise<unknown>): Promise<Hold> {
  const holds: Hold[] = [];
  for (let run = 0; run < RUNS; run++) holds.push(await holdOf(work));
  const median = (part: keyof Hold) => holds.map((hold) => hold[part]).sort((a, b) => a - b)[RUNS >> 1]!;
  return { own: median("own"), whole: median("whole") };
}

/** Of one run. */
export async function holdOf(work: () => Promise<unknown>): Promise<Hold> {
  const waiting = new WaitingTime();
  let [own, whole] = [0, 0];
  let { active } = performance.eventLoopUtilization();
  let waited = waiting.read();
  // What was active from one look to the next is one turn of the event loop, or several short ones.
  const look = () => {
    const now = { active: performance.eventLoopUtilization().active, waited: waiting.read() };
    whole = Math.max(whole, now.active - active);
    own = Math.max(own, now.active - active - (now.waited - waited));
    ({ active, waited } = now);
  };
  const timer = setInterval(look, 1);
  try {
    await work();
    look();
  } finally {
    clearInterval(timer);
    waiting.close();
  }
  return { own, whole };
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
