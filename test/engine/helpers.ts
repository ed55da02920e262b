// What the engine's tests share.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, beforeAll, expect, vi } from "vitest";
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

/** Fails unless what `read` gives comes to equal `expected` soon, as garbage is collected and the event loop turns. */
export async function settles<T>(read: () => T, expected: T): Promise<void> {
  await vi.waitFor(() => {
    collectGarbage();
    expect(read()).toEqual(expected);
  });
}

/** The slope of `f` at each of `x`, by central differences. */
export function slopes(f: (x: readonly number[]) => number, x: readonly number[]): number[] {
  const step = 1e-5;
  return x.map((_, i) => {
    const at = (shift: number) => f(x.map((value, j) => (i === j ? value + shift : value)));
    return (at(step) - at(-step)) / (2 * step);
  });
}
