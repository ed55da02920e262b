// Seeded chance, so that a demo can be run again with the same numbers.

/** A generator of numbers in [0, 1): Mulberry32. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const result = [...items];
  for (let last = result.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [result[last], result[other]] = [result[other]!, result[last]!];
  }
  return result;
}

/** Endless batches of `size` items; every item comes once before any comes again. */
export function* batches<T>(items: readonly T[], size: number, random: () => number): Generator<T[], never> {
  let queue: T[] = [];
  for (;;) {
    while (queue.length < size) queue = [...queue, ...shuffled(items, random)];
    yield queue.splice(0, size);
  }
}
