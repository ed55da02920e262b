// Looking into a loss: intermediate values, and the share of each term.
import { describe, expect, it } from "vitest";
import { createBatch } from "../../src/engine/batch.ts";
import { defineLoss, perToken } from "../../src/loss/define.ts";
import { EXECUTIONS, useEngines } from "./ops/batch.ts";

const engines = useEngines();
const loss = defineLoss({
  inputs: { reference: perToken() },
  params: { beta: 0.5 },
  loss: ({ logprobs, reference, beta }) => {
    const drift = logprobs.sub(reference);
    const nll = logprobs.neg().mean("sample");
    const policy = nll.mean();
    const penalty = drift.square().sum().mul(beta);
    return {
      loss: policy.add(penalty),
      metrics: { largest: drift.max() },
      terms: { policy, penalty },
      values: { drift, nll, far: drift.abs().gt(1), mean: nll.mean(), groups: nll.sum("group") },
    };
  },
});
const batch = (precision: "float32" | "float64") =>
  createBatch({
    weights: [[0, 1, 0, 1], [1], [0]],
    groups: [2, 1],
    logprobs: [[9, -1, 9, -3], [-2], [9]],
    precision,
    inputs: { reference: [[9, -1.5, 9, -1], [-2], [9]] },
  });

describe.each(EXECUTIONS)("on $executor in $precision", ({ executor, precision }) => {
  it("gives the named values on their own axes", async () => {
    const { values, loss: value } = await engines[executor].inspect(loss, await batch(precision));
    const result = await engines[executor].run(loss, await batch(precision));
    expect(value).toBe(result.loss);
    expect(values.drift.axis).toBe("token");
    expect([...values.drift.data]).toEqual([0.5, -2, 0]);
    expect([...values.drift.row(0)]).toEqual([Number.NaN, 0.5, Number.NaN, -2]);
    expect([...values.drift.row(1)]).toEqual([0]);
    expect([...values.drift.row(2)]).toEqual([Number.NaN]);
    expect([...values.far.data]).toEqual([0, 1, 0]);
    // Nothing negated may be -0.
    expect([...values.nll.data].map((value) => value + 0)).toEqual([2, 2, 0]);
    expect([...values.groups.data]).toEqual([4, 0]);
    expect([...values.mean.data]).toEqual([4 / 3]);
    expect(() => values.nll.row(0)).toThrow(/expected a value per token, got one per sample/);
    expect(() => values.drift.row(3)).toThrow(/from 0 to 2, got 3/);
  });

  it("gives each term's value and the norm of its own gradient", async () => {
    const { terms } = await engines[executor].inspect(loss, await batch(precision), { params: { beta: 2 } });
    expect(terms.policy.value).toBeCloseTo(4 / 3, 12);
    expect(terms.penalty.value).toBeCloseTo(2 * 4.25, 12);
    // Policy: -1/6, -1/6, -1/3. Penalty: 2 beta (0.5, -2, 0).
    expect(terms.policy.gradientNorm).toBeCloseTo(Math.hypot(1 / 6, 1 / 6, 1 / 3), 6);
    expect(terms.penalty.gradientNorm).toBeCloseTo(Math.hypot(2, 8), 6);
  });

  it("refuses unknown options", async () => {
    const wrong = { values: ["drift"] } as object;
    await expect(engines[executor].inspect(loss, await batch(precision), wrong)).rejects.toMatchObject({
      code: "ERR_INPUT",
      path: "options.values",
    });
  });
});
