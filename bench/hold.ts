// How long some work holds the event loop.

/** The longest time in which nothing else could run, in milliseconds. */
export async function longestHold(work: () => Promise<unknown>): Promise<number> {
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
