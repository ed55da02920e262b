// Goes on without samples whose values are not finite: what the policies `zero` and `skip` come to.

import { runsOf } from "../rows/layout.ts";
import type { BatchContents } from "./batch.ts";
import type { Dtype } from "./binding.ts";
import { bytesOf, Gradients } from "./gradients.ts";
import type { StoredInput } from "./inputs.ts";
import type { Layout } from "./layout.ts";
import type { Floats } from "./pack.ts";

/** The elements of a typed array, of which `kept` tells the ranges. */
function pick<T extends Floats | Uint32Array>(array: T, ranges: readonly (readonly [number, number])[]): T {
  const size = ranges.reduce((sum, [begin, end]) => sum + end - begin, 0);
  const picked = new (array.constructor as new (size: number) => T)(size);
  let at = 0;
  for (const [begin, end] of ranges) {
    picked.set(array.subarray(begin, end), at);
    at += end - begin;
  }
  return picked;
}

/** First element of each sample in a list of the whole batch, and one behind the last. */
function offsetsOf(sizes: ArrayLike<number>): number[] {
  const offsets = [0];
  for (let i = 0; i < sizes.length; i++) offsets.push(offsets[i]! + sizes[i]!);
  return offsets;
}

/** The ranges of the elements of those that are kept. */
const rangesOf = (offsets: readonly number[], kept: readonly number[]) =>
  kept.map((i) => [offsets[i]!, offsets[i + 1]!] as const);

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);

/** The trained tokens of each sample. */
function tokenCounts(layout: Layout): number[] {
  const counts = Array<number>(layout.rowLengths.length).fill(0);
  for (const { sample, size } of runsOf(layout)) counts[sample]! += size;
  return counts;
}

/** The runs of the samples that are kept, the ranges of their tokens, and how many tokens these are. */
function keptTokens(layout: Layout, counts: readonly number[], kept: readonly number[]) {
  const ranges = rangesOf(offsetsOf(counts), kept);
  const runs = rangesOf(offsetsOf(layout.runCounts), kept);
  return {
    ranges,
    runs: pick(
      layout.runs,
      runs.map(([begin, end]) => [2 * begin, 2 * end] as const),
    ),
    tokens: ranges.reduce((sum, [begin, end]) => sum + end - begin, 0),
  };
}

/** The elements of every input that are kept. */
function pickInputs(
  inputs: BatchContents["inputs"],
  ranges: Readonly<Record<"token" | "sample" | "group", readonly (readonly [number, number])[]>>,
): ReadonlyMap<string, StoredInput> {
  const picked = [...inputs].map(([name, { token, sample, group, came }]): [string, StoredInput] => [
    name,
    {
      ...(token && { token: pick(token, ranges.token) }),
      ...(sample && { sample: pick(sample, ranges.sample) }),
      ...(group && { group: pick(group, ranges.group) }),
      came,
    },
  ]);
  return new Map(picked);
}

/** The batch in which some samples have no trained token any more. They keep their places. */
export function emptied(contents: BatchContents, samples: ReadonlySet<number>): BatchContents {
  const { layout } = contents;
  const all = numbers(layout.rowLengths.length);
  const kept = all.filter((sample) => !samples.has(sample));
  const counts = tokenCounts(layout);
  const { ranges, runs, tokens } = keptTokens(layout, counts, kept);
  const whole = (count: number) => [[0, count] as const];
  return {
    ...contents,
    layout: {
      ...layout,
      runCounts: layout.runCounts.map((count, sample) => (samples.has(sample) ? 0 : count)),
      runs,
      tokens,
      emptySamples: counts.filter((count, sample) => count === 0 || samples.has(sample)).length,
    },
    inputs: pickInputs(contents.inputs, {
      token: ranges,
      sample: whole(all.length),
      group: whole(layout.groupSizes.length),
    }),
  };
}

/** The batch without the groups that some samples belong to, and the samples that are left, by their old numbers. */
export function without(
  contents: BatchContents,
  samples: ReadonlySet<number>,
): { readonly contents: BatchContents; readonly kept: readonly number[] } {
  const { layout } = contents;
  const members = offsetsOf(layout.groupSizes);
  const groups = numbers(layout.groupSizes.length).filter((group) =>
    numbers(layout.groupSizes[group]!).every((k) => !samples.has(members[group]! + k)),
  );
  const kept = rangesOf(members, groups).flatMap(([begin, end]) =>
    numbers(end - begin).map((k) => begin + k),
  );
  const { ranges, runs, tokens } = keptTokens(layout, tokenCounts(layout), kept);
  const single = (chosen: readonly number[]) => chosen.map((i) => [i, i + 1] as const);
  const rowLengths = pick(layout.rowLengths, single(kept));
  const runCounts = pick(layout.runCounts, single(kept));
  const changed: Layout = {
    rowLengths,
    rowOffsets: Float64Array.from(offsetsOf(rowLengths)),
    runCounts,
    runs,
    groupSizes: pick(layout.groupSizes, single(groups)),
    tokens,
    emptySamples: runCounts.filter((count) => count === 0).length,
  };
  const elements = { token: ranges, sample: single(kept), group: single(groups) };
  return { contents: { ...contents, layout: changed, inputs: pickInputs(contents.inputs, elements) }, kept };
}

/** The gradients of some samples in the rows of the whole batch; zeros in all others. */
export function restored<D extends Dtype>(
  gradients: Gradients<D>,
  kept: readonly number[],
  layout: Layout,
): Gradients<D> {
  const size = layout.rowOffsets.at(-1)! * bytesOf(gradients.dtype);
  const whole = new Gradients(new ArrayBuffer(size), gradients.dtype, layout.rowOffsets);
  kept.forEach((sample, row) => {
    (whole.row(sample) as Float32Array).set(gradients.row(row) as Float32Array);
  });
  return whole;
}
