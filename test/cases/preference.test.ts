// Preference losses at known values, and where a probability is 1.
import { describe, expect, it } from "vitest";
import { defineLoss } from "../../src/loss/define.ts";
import { dpo } from "../../src/losses/preference.ts";
import { EXECUTIONS, useEngines } from "../engine/ops/batch.ts";
import { runner } from "./helpers.ts";

const engines = useEngines();

describe.each(EXECUTIONS)("on $executor in $precision", (execution) => {
  const run = runner(engines, execution);
  const pair = (chosen: number[], rejected: number[], reference: readonly number[][]) => ({
    weights: [chosen.map(() => 1), rejected.map(() => 1)],
    logprobs: [chosen, rejected],
    groups: 2,
    inputs: { reference },
  });
  const expectNear = (actual: readonly number[][], expected: readonly number[][]) => {
    expect(actual.map((row) => row.length)).toEqual(expected.map((row) => row.length));
    actual.flat().forEach((value, i) => {
      expect(value).toBeCloseTo(expected.flat()[i]!, 7);
    });
  };

  it("DPO has the value and the gradients worked out by hand", async () => {
    const batch = pair(
      [-4, -6],
      [-5, -7, -3],
      [
        [-5, -7],
        [-4, -6, -4],
      ],
    );
    const { loss, gradients } = await run(dpo({ beta: 0.1 }), batch);
    expect(loss).toBeCloseTo(0.554355, 6);
    const slope = 0.0425557483;
    expectNear(gradients, [
      [-slope, -slope],
      [slope, slope, slope],
    ]);
  });

  it("DPO starts at log 2 with slopes of beta / 2 where policy and reference are the same", async () => {
    const rows = [
      [-1, -2],
      [-3, -0.5],
    ] as const;
    const { loss, gradients } = await run(
      dpo({ beta: 0.1 }),
      pair(
        [...rows[0]],
        [...rows[1]],
        rows.map((r) => [...r]),
      ),
    );
    expect(loss).toBeCloseTo(Math.LN2, 12);
    expectNear(gradients, [
      [-0.05, -0.05],
      [0.05, 0.05],
    ]);
  });

  describe("log-odds of a probability of 1", () => {
    const odds = (bound: number | undefined) =>
      defineLoss({
        loss: ({ logprobs }) => {
          const mean = logprobs.mean("sample");
          const held = bound === undefined ? mean : mean.minimum(bound);
          const logOdds = held.sub(held.log1mexp());
          return {
            loss: logOdds.member(0).sub(logOdds.member(1)).logSigmoid().neg().mean(),
            metrics: { complement: held.log1mexp().min() },
          };
        },
      });
    const batch = { weights: [[1, 1], [1]], logprobs: [[0, 0], [-3]], groups: 2 };

    it("are finite with a bound just below 0, which does not vanish in float32", async () => {
      const { loss, metrics, gradients } = await run(odds(-1e-6), batch);
      expect(metrics.complement).toBeCloseTo(-13.8155, 4);
      // log-odds 13.8155 against -3 + 0.0510692
      expect(loss / Math.exp(-(13.81551 + 2.948931))).toBeCloseTo(1, 4);
      expect(gradients.flat().every(Number.isFinite)).toBe(true);
    });

    it("are refused without one where they make the loss infinite, naming the sample", async () => {
      const swapped = { ...batch, weights: [[1], [1, 1]], logprobs: [[-3], [0, 0]] };
      await expect(run(odds(undefined), swapped)).rejects.toMatchObject({
        code: "ERR_NON_FINITE",
        op: "log1mexp",
        sample: 1,
      });
    });
  });
});
