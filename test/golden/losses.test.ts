// The ready losses against PyTorch's values: loss and gradients, in float64 and float32.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createBatch } from "../../src/engine/batch.ts";
import { createEngine, type Engine } from "../../src/engine/engine.ts";
import type { Loss } from "../../src/loss/define.ts";
import { reinforce } from "../../src/losses/policy-gradient.ts";
import { type DpoOptions, dpo } from "../../src/losses/preference.ts";
import type { Reduction } from "../../src/losses/reductions.ts";
import { crossEntropy, regularizedSft } from "../../src/losses/supervised.ts";
import { type LossCase, lossCases } from "./cases.ts";

type Rows = readonly (readonly number[])[];

let engine: Engine;
beforeAll(async () => {
  engine = await createEngine({ device: "cpu" });
});
afterAll(() => engine.dispose());

const reductionOf = (golden: LossCase) => golden.params.reduction as Reduction;

/** With a length-desensitising factor, tokens beyond the pair's shorter completion weigh less. */
function desensitise(mask: Rows, pairs: Rows, alpha: number): Rows {
  const trained = mask.map((row) => row.filter((weight) => weight > 0).length);
  return mask.map((row, sample) => {
    const shorter = Math.min(
      ...pairs.find((pair) => pair.includes(sample))!.map((member) => trained[member]!),
    );
    let position = 0;
    return row.map((weight) => (weight > 0 && ++position > shorter ? weight * alpha : weight));
  });
}

/** The loss of a case, and what to run it on: the samples of a batch, as indices into the case's. */
function setUp({ loss, params, inputs, ...rest }: LossCase): {
  loss: Loss;
  samples: readonly number[];
  weights: Rows;
  groups: number;
} {
  const all = inputs.logp.map((_, sample) => sample);
  const golden = { loss, params, inputs, ...rest };
  if (loss === "dpo_sigmoid") {
    const options: DpoOptions = {
      beta: params.beta as number,
      divergence: (params.f_divergence ?? "reverse_kl") as NonNullable<DpoOptions["divergence"]>,
      alpha: (params.f_alpha ?? 0.5) as number,
      nllWeight: (params.nll_alpha ?? 0) as number,
    };
    const pairs = inputs.pairs!;
    const weights =
      params.ld_alpha == null ? inputs.mask : desensitise(inputs.mask, pairs, params.ld_alpha as number);
    return { loss: dpo(options), samples: pairs.flat(), weights, groups: 2 };
  }
  const plain = { samples: all, weights: inputs.mask, groups: 1 };
  const reduction = reductionOf(golden);
  if (loss === "cross_entropy") return { loss: crossEntropy({ reduction }), ...plain };
  if (loss === "reinforce") return { loss: reinforce({ reduction }), ...plain };
  return { loss: regularizedSft({ reduction, beta: params.beta as number }), ...plain };
}

async function run(golden: LossCase, precision: "float32" | "float64") {
  const { loss, samples, weights, groups } = setUp(golden);
  const { logp, ref_logp, advantages } = golden.inputs;
  const pick = <T>(values: readonly T[]) => samples.map((sample) => values[sample]!);
  const reference = ref_logp ?? logp.map((row) => row.map(() => 0));
  const batch = await createBatch({
    weights: pick(weights),
    logprobs: pick(logp),
    groups,
    precision,
    inputs: {
      ...("reference" in loss.inputs && { reference: pick(reference) }),
      ...("advantages" in loss.inputs && { advantages: pick(advantages!) }),
    },
  });
  const result = await engine.run(loss, batch, { dtype: precision });
  // A sample that stands in several pairs gets the sum of its gradients.
  const gradients = logp.map((row) => row.map(() => 0));
  samples.forEach((sample, place) => {
    result.gradients.row(place).forEach((value, position) => {
      gradients[sample]![position]! += value;
    });
  });
  return { loss: result.loss, gradients };
}

describe.each(["cross_entropy", "regularized_sft", "reinforce", "dpo_sigmoid"])("%s", (name) => {
  const cases = lossCases(name);
  test("has cases", () => expect(cases.length).toBeGreaterThan(4));

  describe.each(["float64", "float32"] as const)("%s", (precision) => {
    const finite = cases.filter((golden) => !golden.tags.includes("zero-mask"));
    test.each(finite.map((golden) => [golden.name, golden] as const))("%s", async (_, golden) => {
      const { loss, gradients } = await run(golden, precision);
      const expected = golden.expected;
      const largest = Math.max(...expected.gradients.flat().map(Math.abs));
      const [relative, floor] = precision === "float64" ? [1e-9, 1e-300] : [2e-5, 1e-37];
      expect(Math.abs(loss - expected.loss)).toBeLessThanOrEqual(
        relative * Math.max(1, Math.abs(expected.loss)),
      );
      expected.gradients.forEach((row, sample) => {
        expect(gradients[sample]).toHaveLength(row.length);
        row.forEach((value, position) => {
          const error = Math.abs(gradients[sample]![position]! - value);
          expect(error, `sample ${sample}, position ${position}`).toBeLessThanOrEqual(
            relative * largest + floor,
          );
        });
      });
    });

    // Nothing is trained: there is nothing to send, so the batch is refused instead of giving zeros.
    const empty = cases.filter((golden) => golden.name.includes("all-masked"));
    test.each(empty.map((golden) => [golden.name, golden] as const))("%s is refused", async (_, golden) => {
      await expect(run(golden, precision)).rejects.toMatchObject({ code: "ERR_EMPTY_BATCH" });
    });

    // The literal 0 / 0 of a plain formula is found before it is sent.
    const nonFinite = cases.filter((golden) => golden.tags.includes("nonfinite"));
    test.each(nonFinite.map((golden) => [golden.name, golden] as const))(
      "%s is reported",
      async (_, golden) => {
        const empty = golden.inputs.mask.findIndex((row) => row.every((weight) => weight === 0));
        await expect(run(golden, precision)).rejects.toMatchObject({
          code: "ERR_NON_FINITE",
          op: "div",
          sample: empty,
        });
      },
    );
  });
});
