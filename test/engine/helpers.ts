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

/** The slope of `f` at each of `x`, by central differences. */
export function slopes(f: (x: readonly number[]) => number, x: readonly number[]): number[] {
  const step = 1e-5;
  return x.map((_, i) => {
    const at = (shift: number) => f(x.map((value, j) => (i === j ? value + shift : value)));
    return (at(step) - at(-step)) / (2 * step);
  });
}
