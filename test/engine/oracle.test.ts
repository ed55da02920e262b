// The derivative rules against libtorch's autograd, and the executors and devices against each other, on random losses.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createBatch } from "../../src/engine/batch.ts";
import { NonFiniteError } from "../../src/engine/errors.ts";
import type { Loss } from "../../src/loss/define.ts";
import { OPS, type OpName } from "../../src/loss/ops.ts";
import { GROUPS, LENGTHS, packedGradients, TOKENS, useEngines, weights } from "./ops/batch.ts";
import { numbers, randomLoss } from "./random-loss.ts";

const engines = useEngines();
const RUNS = { numRuns: 400, seed: 20_24 };

const inputs = fc.record({
  logprobs: numbers(TOKENS),
  reference: numbers(TOKENS),
  advantages: numbers(LENGTHS.length),
  margin: numbers(GROUPS.length),
});
type Inputs = typeof inputs extends fc.Arbitrary<infer T> ? T : never;

const batchOf = ({ logprobs, ...rest }: Inputs, precision: "float32" | "float64") =>
  createBatch({ weights, groups: GROUPS, precision, logprobs: Float64Array.from(logprobs), inputs: rest });

/** Loss and gradients; nothing where they are not finite. */
async function outcome(
  executor: keyof typeof engines,
  loss: Loss,
  given: Inputs,
  precision: "float32" | "float64",
) {
  try {
    const result = await engines[executor].run(loss, await batchOf(given, precision), { dtype: precision });
    return [result.loss, ...packedGradients(result)];
  } catch (error) {
    if (error instanceof NonFiniteError) return undefined;
    throw error;
  }
}

/** Fails where two outcomes differ by more than a share of the largest number among them. */
function expectClose(
  got: readonly number[] | undefined,
  expected: readonly number[],
  tolerance: number,
): void {
  expect(got).toBeDefined();
  const largest = Math.max(...expected.map(Math.abs));
  got!.forEach((value, i) => {
    expect(Math.abs(value - expected[i]!)).toBeLessThanOrEqual(tolerance * largest);
  });
}

describe("random losses", () => {
  const ops = Object.keys(OPS) as OpName[];

  it("have the gradients that autograd finds, wherever those are finite", async () => {
    let compared = 0;
    await fc.assert(
      fc.asyncProperty(randomLoss(ops), inputs, async (loss, given) => {
        const expected = await outcome("autograd", loss, given, "float64");
        if (expected === undefined) return;
        compared++;
        expectClose(await outcome("torch", loss, given, "float64"), expected, 1e-9);
      }),
      RUNS,
    );
    expect(compared).toBeGreaterThan(RUNS.numRuns / 3);
  });

  // Ops that jump make a difference in the last digit a large one.
  const smooth = ops.filter((op) => !/^(floor|sign|eq|ne|rank|topK|sort|max|min)$/.test(op));

  it("come out alike on the fused and the torch executor", async () => {
    let compared = 0;
    await fc.assert(
      fc.asyncProperty(randomLoss(smooth), inputs, async (loss, given) => {
        const expected = await outcome("torch", loss, given, "float32");
        const exact = await outcome("torch", loss, given, "float64");
        if (expected === undefined || exact === undefined) return;
        // Where float32 itself has lost the digits there is nothing to compare.
        const largest = Math.max(...exact.map(Math.abs));
        if (expected.some((value, i) => Math.abs(value - exact[i]!) > 1e-5 * largest)) return;
        compared++;
        expectClose(await outcome("fused", loss, given, "float32"), expected, 1e-4);
      }),
      RUNS,
    );
    expect(compared).toBeGreaterThan(RUNS.numRuns / 4);
  });

  it("come out alike on cuda in float64 and on the CPU", async () => {
    let compared = 0;
    await fc.assert(
      fc.asyncProperty(randomLoss(smooth), inputs, async (loss, given) => {
        const expected = await outcome("torch", loss, given, "float64");
        if (expected === undefined) return;
        compared++;
        expectClose(await outcome("cuda", loss, given, "float64"), expected, 1e-9);
      }),
      RUNS,
    );
    expect(compared).toBeGreaterThan(RUNS.numRuns / 3);
  });
});
