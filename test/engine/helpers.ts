// What the engine's tests share.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, beforeAll } from "vitest";
import { createEngine, type Engine, type EngineOptions } from "../../src/engine/engine.ts";

/** An engine for the tests of one file. */
export function useEngine(options: EngineOptions = { device: "cpu" }): { readonly engine: Engine } {
  const held: { engine?: Engine } = {};
  beforeAll(async () => {
    held.engine = await createEngine(options);
  });
  afterAll(() => held.engine?.dispose());
  return held as { engine: Engine };
}

/** Collects garbage now. */
export function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
}

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

/** Numbers from 0 to 1, the same in every run. */
export function randomNumbers(seed = 1): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The slope of `f` at each of `x`, by central differences. */
export function slopes(f: (x: readonly number[]) => number, x: readonly number[]): number[] {
  const step = 1e-5;
  return x.map((_, i) => {
    const at = (shift: number) => f(x.map((value, j) => (i === j ? value + shift : value)));
    return (at(step) - at(-step)) / (2 * step);
  });
}

/** The largest difference, over the largest of the expected. */
export function distance(got: ArrayLike<number>, expected: readonly number[]): number {
  if (got.length !== expected.length) return Infinity;
  const scale = Math.max(1e-30, ...expected.map(Math.abs));
  return Math.max(...expected.map((value, i) => Math.abs(value - got[i]!))) / scale;
}
