// What is not taken passes nothing on: behind a zero cotangent no op makes a gradient, let alone NaN.
import { describe, expect, it } from "vitest";
import { createBatch } from "../../../src/engine/batch.ts";
import { defineLoss, perToken } from "../../../src/loss/define.ts";
import { OPS, SIGNATURES } from "../../../src/loss/ops.ts";
import type { Mask, Tensor } from "../../../src/loss/tensor.ts";
import { EXECUTIONS, opNames, useEngines } from "./batch.ts";

const engines = useEngines();

/** Poles, overflows and bounds of one op or another. */
const HARD = [0, -0, 1, -1, 800, -800, -1e30, 1e38, 0.5];
const weights = [HARD.map(() => 1)];

const numeric = opNames.filter((name) => {
  const { operands, result, axis } = SIGNATURES[OPS[name].signature];
  return axis === "finest" && result === "number" && !(operands as readonly string[]).includes("mask");
});
const executions = EXECUTIONS.filter(({ executor }) => executor !== "autograd");
const cases = numeric.flatMap((name) => executions.map((execution) => ({ name, ...execution })));

describe("a value that is not taken", () => {
  it.each(cases)(
    "of $name leaves no gradient on $executor in $precision",
    async ({ name, executor, precision }) => {
      const loss = defineLoss({
        inputs: { other: perToken() },
        loss: ({ logprobs, other }) => {
          // biome-ignore lint/suspicious/noExplicitAny: the method is chosen by name
          const call = (x: any, ...args: unknown[]): Tensor<"token"> => x[name](...args);
          const value = (x: Tensor<"token">, y: Tensor<"token">) =>
            name === "pow" ? call(x, -0.5) : name === "clamp" ? call(x, y, 1) : call(x, y);
          // Once as the first operand and once as the second, and as the argument of an exponential.
          const values = [value(logprobs, other), value(other, logprobs), value(logprobs, other).exp()];
          const never = logprobs.gt(other).and(logprobs.lt(other)) as Mask<"token">;
          return values
            .map((hard) => never.where(hard, 0).sum().add(never.not().where(0, hard).sum()))
            .reduce((sum, part) => sum.add(part), logprobs.mul(2).sum());
        },
      });
      const expected = HARD.reduce((sum, x) => sum + 2 * Math.fround(x), 0);
      for (const other of [HARD, [...HARD].reverse(), HARD.map(() => 0)]) {
        const batch = await createBatch({ weights, precision, logprobs: [HARD], inputs: { other: [other] } });
        const result = await engines[executor].run(loss, batch, { dtype: precision });
        expect(Math.abs(result.loss / expected - 1)).toBeLessThan(1e-6);
        expect([...result.gradients.row(0)]).toEqual(HARD.map(() => 2));
      }
    },
  );

  it.each(executions)(
    "on a coarser axis leaves none either, on $executor in $precision",
    async (execution) => {
      const loss = defineLoss({
        loss: ({ logprobs }) => {
          const sums = logprobs.sum("sample");
          const hard = [
            sums.exp().log(),
            sums.sqrt(),
            logprobs.std("sample").log(),
            logprobs.logsumexp("sample").div(sums.sub(sums)),
            logprobs.max("sample").pow(-1),
            sums.softmax("group").log(),
            sums.sort().log1p(),
          ];
          return hard
            .map((value) => sums.gt(1e300).where(value, 0).sum())
            .reduce((sum, part) => sum.add(part), sums.sum());
        },
      });
      const batch = await createBatch({
        weights: [[1, 1], [1], [0], [1, 1]],
        groups: 2,
        logprobs: [[0, 0], [-900], [0], [900, -1]],
        precision: execution.precision,
      });
      const result = await engines[execution.executor].run(loss, batch);
      expect(result.loss).toBe(-1);
      expect([...result.gradients].map((row) => [...row])).toEqual([[1, 1], [1], [0], [1, 1]]);
    },
  );
});

describe("what is taken", () => {
  it.each(executions)("is never hidden: NaN stays NaN on $executor in $precision", async (execution) => {
    const bad: readonly ((x: Tensor<"token">) => Tensor<"token"> | Tensor<"sample"> | Tensor<"batch">)[] = [
      (x) => x.log().relu(),
      (x) => x.log().std(),
      (x) => x.mul(1e3).neg().exp().std("sample"),
      (x) => x.log().clamp(-1, 1),
      (x) => x.log().minimum(0),
      (x) => x.sub(x).unscale(x.sub(x)).add(x.log().abs()),
    ];
    const batch = await createBatch({
      weights: [[1, 1]],
      logprobs: [[-1, -2]],
      precision: execution.precision,
    });
    for (const value of bad) {
      const loss = defineLoss({
        loss: ({ logprobs }) => {
          const x = value(logprobs);
          const sum = x.axis === "batch" ? (x as Tensor<"batch">) : (x as Tensor<"token">).sum();
          return sum.add(logprobs.mean());
        },
      });
      await expect(engines[execution.executor].run(loss, batch)).rejects.toMatchObject({
        code: "ERR_NON_FINITE",
      });
    }
  });

  it.each(executions)("a zero over what may be NaN is 0, on $executor in $precision", async (execution) => {
    const loss = defineLoss({
      inputs: { zero: perToken() },
      loss: ({ logprobs, zero }) => zero.unscale(logprobs.log().maximum(1)).sum().add(logprobs.sum()),
    });
    const batch = await createBatch({
      weights: [[1]],
      logprobs: [[-1]],
      precision: execution.precision,
      inputs: { zero: [[0]] },
    });
    expect((await engines[execution.executor].run(loss, batch)).loss).toBe(-1);
  });
});
