// Seeded chance: numbers, shuffles, and the order in which a data set is gone through.
import { checkNumber, checkWhole } from "../losses/options.ts";
import { checkNames } from "../names.ts";

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

/** The same items in an order of chance. */
export function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const result = [...items];
  for (let last = result.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    [result[last], result[other]] = [result[other]!, result[last]!];
  }
  return result;
}

export interface BatchOrder {
  /** Items of the data set, at least 1. */
  readonly count: number;
  /** Items of a batch, at least 1. */
  readonly size: number;
  /** Seed of the order. Default 0. */
  readonly seed?: number;
}

/** Apart, so that the orders of neighbouring seeds have none in common. */
const EPOCHS = 1_000_003;

/**
 * The items of one step, by their numbers: every item comes once before any comes again, in another order each time. It
 * depends on the step alone, so that a run that was resumed goes on as it would have.
 *
 * @throws {InputError} for a count, size, step or seed that is none.
 */
export function batchAt(step: number, order: BatchOrder): number[] {
  checkNames("batchAt", order, ["count", "size", "seed"]);
  const { count, size, seed = 0 } = order;
  checkWhole("batchAt.step", step, 0);
  checkWhole("batchAt.count", count, 1);
  checkWhole("batchAt.size", size, 1);
  checkNumber("batchAt.seed", seed);
  const all = Array.from({ length: count }, (_, item) => item);
  const orders = new Map<number, number[]>();
  return Array.from({ length: size }, (_, i) => {
    const place = step * size + i;
    const epoch = Math.floor(place / count);
    if (!orders.has(epoch)) orders.set(epoch, shuffled(all, seededRandom(seed * EPOCHS + epoch)));
    return orders.get(epoch)![place % count]!;
  });
}
