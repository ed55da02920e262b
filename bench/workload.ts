// Batches to measure on: seeded log-probabilities of the shape real ones have, the first quarter of each sample prompt.
import { seededRandom } from "../src/training/order.ts";

/** Samples x positions of each. */
export const WORKLOADS = ["64x512", "256x2048", "512x8192"] as const;

export interface Workload {
  readonly weights: readonly Float32Array[];
  readonly logprobs: readonly Float32Array[];
  readonly old: readonly Float32Array[];
  readonly reference: readonly Float32Array[];
  readonly advantages: Float64Array;
}

/** Most tokens nearly certain, the rest with a long tail. */
function logprob(random: () => number): number {
  const kind = random();
  if (kind < 0.4) return -(10 ** (-6.5 + 4.5 * random()));
  return Math.log(1 - random()) * (kind < 0.85 ? 0.45 : 3);
}

export function makeWorkload(name: (typeof WORKLOADS)[number]): Workload {
  const [samples, length] = name.split("x").map(Number) as [number, number];
  const random = seededRandom(7);
  const prompt = length / 4;
  const rows = (value: (position: number, sample: number) => number) =>
    Array.from({ length: samples }, (_, sample) =>
      Float32Array.from({ length }, (_, position) => value(position, sample)),
    );
  const near = (row: Float32Array, position: number) => Math.min(0, row[position]! + 0.1 * (random() - 0.5));
  const logprobs = rows((position) => (position < prompt ? 0 : logprob(random)));
  return {
    weights: rows((position) => +(position >= prompt)),
    logprobs,
    old: rows((position, sample) => near(logprobs[sample]!, position)),
    reference: rows((position, sample) => near(logprobs[sample]!, position)),
    advantages: Float64Array.from({ length: samples }, () => 2 * random() - 1),
  };
}
