// What the tests of ops share: a ragged batch, numbers that lie apart, and the executors to run on.
import { afterAll, beforeAll, beforeEach } from "vitest";
import type { ExecutorName, Precision } from "../../../src/engine/binding.ts";
import type { RunResult } from "../../../src/engine/engine.ts";
import { createEngine, type Engine } from "../../../src/engine/engine.ts";
import { OPS, type OpName, type SignatureName } from "../../../src/loss/ops.ts";
import { seededRandom } from "../../helpers.ts";
import { NO_GPU } from "../gpu.ts";

/** What computes: an executor on the CPU, or `cuda`, which is the torch executor on a GPU. */
export type EngineName = ExecutorName | "cuda";

/** Everything that computes, in every precision that it computes in. */
export const EXECUTIONS: readonly { readonly executor: EngineName; readonly precision: Precision }[] = [
  { executor: "fused", precision: "float32" },
  { executor: "torch", precision: "float32" },
  { executor: "torch", precision: "float64" },
  { executor: "autograd", precision: "float64" },
  { executor: "cuda", precision: "float32" },
  { executor: "cuda", precision: "float64" },
];

/** One engine for each, for the tests of one file. Those with "cuda" in their names are skipped where there is no GPU. */
export function useEngines(): Record<EngineName, Engine> {
  const engines = {} as Record<EngineName, Engine>;
  beforeAll(async () => {
    if (NO_GPU === undefined) engines.cuda = await createEngine({ device: "cuda" });
    for (const executor of ["fused", "torch", "autograd"] as const) {
      engines[executor] = await createEngine({ device: "cpu", executor });
    }
  });
  beforeEach(({ task, skip }) => skip(NO_GPU !== undefined && /\bcuda\b/.test(task.fullName), NO_GPU));
  afterAll(() => {
    for (const engine of Object.values(engines)) engine.dispose();
  });
  return engines;
}

export const TOLERANCES = {
  float32: { value: 3e-6, slope: 2e-5 },
  float64: { value: 1e-13, slope: 1e-8 },
} as const;

export const opNames = Object.keys(OPS) as OpName[];
export const ofSignature = (...signatures: SignatureName[]) =>
  opNames.filter((name) => signatures.includes(OPS[name].signature));

/** Samples of 3, 0, 5, 1 and 0 trained tokens, in groups of 2, 2 and 1. */
export const LENGTHS = [3, 0, 5, 1, 0];
export const GROUPS = [2, 2, 1];
export const TOKENS = 9;
export const sampleOf = LENGTHS.flatMap((length, sample) => Array<number>(length).fill(sample));
export const groupOfSample = GROUPS.flatMap((size, group) => Array<number>(size).fill(group));
export const weights = LENGTHS.map((length) => [0, ...Array<number>(length).fill(1), 0]);

/** Float32 numbers between two bounds, no two of them close together. */
export function spacedNumbers(count: number, low: number, high: number, seed: number): number[] {
  const random = seededRandom(seed);
  const places = Array.from({ length: count }, (_, i) => (i + 0.2 + 0.6 * random()) / count);
  const order = places.map((place) => ({ place, key: random() })).sort((a, b) => a.key - b.key);
  return order.map(({ place }) => Math.fround(low + (high - low) * place));
}

/** The gradients at the trained tokens. */
export const packedGradients = ({ gradients }: RunResult): number[] =>
  LENGTHS.flatMap((length, i) => [...gradients.row(i).subarray(1, 1 + length)]);
