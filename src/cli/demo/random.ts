// The demo's batches, so that it can be run again with the same numbers.
import { shuffled } from "../../training/order.ts";

/** Endless batches of `size` items; every item comes once before any comes again. */
export function* batches<T>(items: readonly T[], size: number, random: () => number): Generator<T[], never> {
  let queue: T[] = [];
  for (;;) {
    while (queue.length < size) queue = [...queue, ...shuffled(items, random)];
    yield queue.splice(0, size);
  }
}
