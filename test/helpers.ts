// What tests of several rooms share.
export { seededRandom } from "../src/training/order.ts";

/** How late, in milliseconds, a timer of 10 ms was at most while `work` went on. */
export async function lateness(work: () => Promise<unknown>): Promise<number> {
  let latest = 0;
  let expected = performance.now() + 10;
  const timer = setInterval(() => {
    latest = Math.max(latest, performance.now() - expected);
    expected = performance.now() + 10;
  }, 10);
  await work();
  clearInterval(timer);
  return Math.max(latest, performance.now() - expected);
}

/** Largest difference of two lists, relative to the largest number of the second. */
export function relativeError(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  if (actual.length !== expected.length) return Infinity;
  let difference = 0;
  let scale = 1e-30;
  for (let i = 0; i < expected.length; i++) {
    difference = Math.max(difference, Math.abs(actual[i]! - expected[i]!));
    scale = Math.max(scale, Math.abs(expected[i]!));
  }
  return difference / scale;
}
