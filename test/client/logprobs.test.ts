// The memory of a batch's log-probabilities: whichever operations bring them, each number is in its place.

import fc from "fast-check";
import { expect, test } from "vitest";
import { Logprobs } from "../../src/client/logprobs.ts";
import { Pace } from "../../src/pace.ts";
import { readRowLayout } from "../../src/rows/layout.ts";
import { LOGPROBS_IN_OUTPUT } from "../../src/wire/result.ts";
import { inParts } from "../wire/helpers.ts";

async function logprobsOf(weights: readonly (readonly number[])[], packed: boolean): Promise<Logprobs> {
  return new Logprobs(await readRowLayout(weights, () => "weights", new Pace()), packed);
}

async function* textOf(rows: readonly (readonly number[])[]) {
  const outputs = rows.map((data) => ({ tensors: { logprobs: { data } } }));
  yield* inParts(JSON.stringify({ loss_fn_outputs: outputs }), 7);
}

test("parts of any size, read in any order, make the whole", async () => {
  const row = fc.array(
    fc.tuple(fc.constantFrom(0, 1, 0.5), fc.float({ noNaN: true, noDefaultInfinity: true })),
    {
      maxLength: 12,
    },
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(row, { minLength: 1, maxLength: 12 }),
      fc.array(fc.nat({ max: 12 }), { maxLength: 4 }),
      fc.boolean(),
      fc.boolean(),
      async (samples, cuts, packed, backwards) => {
        const weights = samples.map((row) => row.map(([weight]) => weight));
        // -0 is written as 0.
        const values = samples.map((row) => row.map(([, value]) => value + 0));
        const logprobs = await logprobsOf(weights, packed);
        const kept = values.map((row, sample) =>
          Float32Array.from(row.filter((_, i) => !packed || weights[sample]![i] !== 0)),
        );
        const ends = [...new Set([...cuts.filter((cut) => cut > 0 && cut < samples.length), samples.length])];
        ends.sort((a, b) => a - b);
        const ranges = ends.map((to, index) => ({ from: ends[index - 1] ?? 0, to }));
        for (const { from, to } of backwards ? ranges.reverse() : ranges) {
          const part = logprobs.part({ from, to });
          expect(part).toMatchObject({ from, arrived: false });
          await part.read(textOf(values.slice(from, to)), LOGPROBS_IN_OUTPUT);
          expect(part.arrived).toBe(true);
        }
        const rows = await logprobs.rows();
        expect(rows).toEqual(kept);
        expect(logprobs.values).toEqual(Float32Array.from(kept.flatMap((row) => [...row])));
        expect(rows.every(({ buffer }) => buffer === logprobs.values.buffer)).toBe(true);
      },
    ),
    { numRuns: 200 },
  );
});

test("what came before an attempt that broke off does not count as arrived", async () => {
  const part = (await logprobsOf([[1, 1]], true)).part({ from: 0, to: 1 });
  const read = (text: string) => part.read(asStream(text), LOGPROBS_IN_OUTPUT);
  await read("{}");
  expect(part.arrived).toBe(false);
  await read('{"loss_fn_outputs":[{"tensors":{"logprobs":{"data":[1,2]}}}]}');
  await read("{}");
  expect(part.arrived).toBe(true);
  await expect(read('{"loss_fn_outputs":[{"tensors":{"logprobs":{"data":[3')).rejects.toThrow();
  await read("{}");
  expect(part.arrived).toBe(false);
});

async function* asStream(text: string) {
  yield Buffer.from(text);
}

test("a part of a large batch costs no more than one of a small batch", { timeout: 10_000 }, async () => {
  const row = new Float32Array(10).fill(1);
  row[4] = 0;
  const samples = 100_000;
  const logprobs = await logprobsOf(new Array(samples).fill(row), true);
  for (let from = 0; from < samples; from++) logprobs.part({ from, to: from + 1 });
  const last = logprobs.part({ from: samples - 1, to: samples });
  await last.read(textOf([[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]]), LOGPROBS_IN_OUTPUT);
  expect([...logprobs.values.subarray(-9)]).toEqual([1, 2, 3, 4, 6, 7, 8, 9, 10]);
});
