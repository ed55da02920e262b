// Batches to measure on: seeded log-probabilities of the shape real ones have, the first quarter of each sample prompt.
import { mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import { seededRandom } from "../src/training/order.ts";

/** Samples x positions of each. */
export const WORKLOADS = ["64x512", "256x2048", "512x8192"] as const;

/** What a workload is called: samples x positions. */
export type WorkloadName = `${number}x${number}`;

export interface Workload {
  readonly name: WorkloadName;
  readonly weights: readonly Float32Array[];
  readonly logprobs: readonly Float32Array[];
  readonly old: readonly Float32Array[];
  readonly reference: readonly Float32Array[];
  /** One for each sample. */
  readonly advantages: Float32Array;
}

/** Most tokens nearly certain, the rest with a long tail. */
function logprob(random: () => number): number {
  const kind = random();
  if (kind < 0.4) return -(10 ** (-6.5 + 4.5 * random()));
  return Math.log(1 - random()) * (kind < 0.85 ? 0.45 : 3);
}

export function makeWorkload(name: WorkloadName): Workload {
  const [samples, length] = name.split("x").map(Number) as [number, number];
  const random = seededRandom(7);
  const prompt = length / 4;
  const rows = (value: (position: number, sample: number) => number) =>
    Array.from({ length: samples }, (_, sample) =>
      Float32Array.from({ length }, (_, position) => value(position, sample)),
    );
  // One token in twenty is so far off that a ratio may be clipped.
  const near = (row: Float32Array, position: number) => {
    const width = random() < 0.05 ? 0.8 : 0.1;
    return Math.min(0, row[position]! + width * (random() - 0.5));
  };
  const logprobs = rows((position) => (position < prompt ? 0 : logprob(random)));
  return {
    name,
    weights: rows((position) => +(position >= prompt)),
    logprobs,
    old: rows((position, sample) => near(logprobs[sample]!, position)),
    reference: rows((position, sample) => near(logprobs[sample]!, position)),
    advantages: Float32Array.from({ length: samples }, () => 2 * random() - 1),
  };
}

/** Writes a workload for other programs: in a folder of its name, a file of raw float32 for each of its arrays. */
export async function writeWorkload(parent: string, { name, ...arrays }: Workload): Promise<void> {
  const folder = join(parent, name);
  await mkdir(folder);
  for (const [array, rows] of Object.entries(arrays)) {
    await using file = await open(join(folder, `${array}.f32`), "w");
    for (const row of Array.isArray(rows) ? rows : [rows]) await file.write(row);
  }
}
