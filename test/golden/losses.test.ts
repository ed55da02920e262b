// The ready losses against PyTorch's values, loss and gradients, with every executor and precision.
import { describe, expect, test } from "vitest";
import { createBatch } from "../../src/engine/batch.ts";
import { EXECUTIONS, useEngines } from "../engine/ops/batch.ts";
import { type LossCase, lossCases, type Rows } from "./cases.ts";
import { READY_LOSSES } from "./ready-losses.ts";
import { setUp } from "./set-up.ts";

const engines = useEngines();
/** Relative to the largest gradient of a case, or to the loss where that is above 1. */
const TOLERANCES = { float32: { relative: 2e-5, floor: 1e-37 }, float64: { relative: 1e-9, floor: 1e-300 } };

const isEmpty = ({ inputs }: LossCase) => inputs.mask.flat().every((weight) => weight === 0);
const isNonFinite = ({ tags }: LossCase) => tags.includes("nonfinite");
const finite = lossCases.filter((golden) => !isEmpty(golden) && !isNonFinite(golden));

/** Margins of some hundreds, where PyTorch's slope of the sigmoid, y (1 - y), has lost 1 - y: it has a test of its own. */
const UNDERFLOWN = "dpo_exo_pair--saturated";

test("there are cases of every loss, and a loss for every case", () => {
  expect(new Set(finite.map(({ loss }) => loss))).toEqual(new Set(Object.keys(READY_LOSSES)));
  expect(finite.length).toBeGreaterThan(320);
});

describe.each(EXECUTIONS)("$executor in $precision", ({ executor, precision }) => {
  async function run(golden: LossCase) {
    const { loss, samples, weights, logprobs, groups, inputs, params } = setUp(golden);
    const batch = await createBatch({ weights, logprobs, groups, precision, inputs });
    const result = await engines[executor].run(loss, batch, { dtype: precision, params });
    // A sample that stands in several pairs gets the sum of its gradients.
    const gradients = golden.inputs.logp.map((row) => row.map(() => 0));
    const others: number[] = [];
    samples.forEach((sample, place) => {
      result.gradients.row(place).forEach((value, position) => {
        if (sample === undefined) others.push(value);
        else gradients[sample]![position]! += value;
      });
    });
    return { loss: result.loss, gradients, others };
  }

  function expectGradients(gradients: Rows, expected: Rows): void {
    const { relative, floor } = TOLERANCES[precision];
    const bound = relative * Math.max(...expected.flat().map(Math.abs)) + floor;
    expect(gradients.map((row) => row.length)).toEqual(expected.map((row) => row.length));
    const wrong = expected.flatMap((row, sample) =>
      row.flatMap((value, position) => {
        const got = gradients[sample]![position]!;
        return Math.abs(got - value) <= bound ? [] : [{ sample, position, got, expected: value }];
      }),
    );
    expect(wrong).toEqual([]);
  }

  test.each(finite.map((golden) => [golden.name, golden] as const))("%s", async (name, golden) => {
    const { expected } = golden;
    const { loss, gradients, others } = await run(golden);
    const { relative } = TOLERANCES[precision];
    expect(Math.abs(loss - expected.loss)).toBeLessThanOrEqual(
      relative * Math.max(1, Math.abs(expected.loss)),
    );
    if (name !== UNDERFLOWN) expectGradients(gradients, expected.gradients);
    expect(others.every((value) => value === 0)).toBe(true);
  });

  // Autograd is PyTorch itself, and loses what PyTorch loses.
  test.skipIf(executor === "autograd")(`${UNDERFLOWN} has the slope of the formula`, async () => {
    const golden = lossCases.find(({ name }) => name === UNDERFLOWN)!;
    const { logp, ref_logp, pairs } = golden.inputs;
    const { beta, label_smoothing: smoothing } = golden.params as Record<string, number>;
    const logRatio = logp.map((row, i) => row.reduce((sum, l, t) => sum + l - ref_logp![i]![t]!, 0));
    const expected = logp.map((row) => row.map(() => 0));
    for (const [chosen, rejected] of pairs as [number, number][]) {
      const z = beta! * (logRatio[chosen]! - logRatio[rejected]!);
      const odds = Math.log(smoothing! / (1 - smoothing!));
      // sigmoid(z) sigmoid(-z), of which one factor is 1 to the last digit.
      const slope = (beta! / pairs!.length) * Math.exp(-Math.abs(z)) * (z + odds);
      expected[chosen]!.fill(slope);
      expected[rejected]!.fill(-slope);
    }
    expectGradients((await run(golden)).gradients, expected);
  });

  // Nothing is trained: there is nothing to send, so the batch is refused instead of giving zeros.
  test.each(lossCases.filter(isEmpty).map((golden) => [golden.name, golden] as const))(
    "%s is refused",
    async (_, golden) => {
      await expect(run(golden)).rejects.toMatchObject({ code: "ERR_EMPTY_BATCH" });
    },
  );

  // The literal 0 / 0 of a plain formula is found before it is sent.
  test.each(lossCases.filter(isNonFinite).map((golden) => [golden.name, golden] as const))(
    "%s is reported",
    async (_, golden) => {
      const sample = golden.inputs.mask.findIndex((row) => row.every((weight) => weight === 0));
      await expect(run(golden)).rejects.toMatchObject({ code: "ERR_NON_FINITE", op: "div", sample });
    },
  );
});
