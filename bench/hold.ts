// How long some work holds the event loop.

/** Runs that the median is taken of, so that a pause that something else made is not taken for one of the work. */
const RUNS = 3;

/** The longest time of a run in which nothing else could run, in milliseconds: the median of some runs. */
export async function longestHold(work: () => Promise<unknown>): Promise<number> {
  const holds: number[] = [];
  for (let run = 0; run < RUNS; run++) holds.push(await longestOf(work));
  return holds.sort((a, b) => a - b)[RUNS >> 1]!;
}

async function longestOf(work: () => Promise<unknown>): Promise<number> {
  let longest = 0;
  let last = performance.now();
  let open = true;
  const look = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
    if (open) setImmediate(look);
  };
  setImmediate(look);
  await work();
  open = false;
  return Math.max(longest, performance.now() - last);
}
