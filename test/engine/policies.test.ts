// What becomes of samples whose values are not finite, by policy, and whom the report blames.
import { describe, expect, it } from "vitest";
import { type BatchOptions, createBatch } from "../../src/engine/batch.ts";
import type { NonFiniteError } from "../../src/engine/errors.ts";
import { defineLoss, perGroup, perSample, perToken } from "../../src/loss/define.ts";
import { EXECUTIONS, useEngines } from "./ops/batch.ts";

const engines = useEngines();

/** exp overflows in both precisions at 800. */
const loss = defineLoss({
  name: "overflowing",
  inputs: { advantages: perSample(), bonus: perGroup(), old: perToken() },
  loss: ({ logprobs, advantages, bonus, old }) =>
    logprobs.sub(old).exp().mul(advantages).sum("sample").sum("group").mul(bonus).mean(),
});
const options: BatchOptions = {
  weights: [[0, 1], [1, 1, 0], [1], [1, 1], [1], [1]],
  groups: 2,
  logprobs: [[9, -1], [-1, -2, 9], [800], [-1, -1], [-0.5], [-0.25]],
  inputs: {
    old: [[9, 0], [0, 0, 9], [0], [0, 0], [0], [0]],
    advantages: [1, 2, 3, 4, 5, 6],
    bonus: [1, 10, 100],
  },
};

describe.each(EXECUTIONS)("on $executor in $precision", ({ executor, precision }) => {
  const run = async (nonFinite: "throw" | "zero" | "skip", changes: Partial<BatchOptions> = {}) =>
    engines[executor].run(loss, await createBatch({ ...options, precision, ...changes }), {
      nonFinite,
      dtype: precision,
    });

  it("throws by default and names the op, its line, the place and the operands", async () => {
    const error = await run("throw").catch((error: NonFiniteError) => error);
    expect(error).toMatchObject({
      code: "ERR_NON_FINITE",
      op: "exp",
      sample: 2,
      position: 0,
      operands: [800],
      samples: [2],
      loss: Infinity,
      source: expect.stringMatching(/policies\.test\.ts:15:\d+$/),
    });
  });

  it("zero: computes as if the sample had no trained token", async () => {
    const result = await run("zero");
    const expected = await run("throw", {
      weights: [[0, 1], [1, 1, 0], [0], [1, 1], [1], [1]],
    });
    expect(result.nonFiniteSamples).toEqual([2]);
    expect(result.emptySamples).toBe(1);
    expect(result.loss).toBe(expected.loss);
    expect([...result.gradients]).toEqual([...expected.gradients]);
    expect([...result.gradients.row(2)]).toEqual([0]);
  });

  it("skip: computes without the sample's group", async () => {
    const result = await run("skip");
    const kept = [0, 1, 4, 5];
    const only = (rows: readonly unknown[]) => kept.map((i) => rows[i]) as number[][];
    const expected = await run("throw", {
      weights: only(options.weights),
      logprobs: only(options.logprobs as number[][]),
      inputs: { old: only(options.inputs!.old as number[][]), advantages: [1, 2, 5, 6], bonus: [1, 100] },
    });
    expect(result.nonFiniteSamples).toEqual([2]);
    expect(result.loss).toBe(expected.loss);
    expect(result.gradients.rows).toBe(6);
    expect([...result.gradients.row(2)]).toEqual([0]);
    expect([...result.gradients.row(3)]).toEqual([0, 0]);
    kept.forEach((sample, row) => {
      expect(result.gradients.row(sample)).toEqual(expected.gradients.row(row));
    });
  });

  it("sets several aside at once, and gives up when nothing is left", async () => {
    const several = { logprobs: [[9, 800], [-1, -2, 9], [800], [-1, -1], [-0.5], [-0.25]] };
    expect((await run("zero", several)).nonFiniteSamples).toEqual([0, 2]);
    expect((await run("skip", several)).nonFiniteSamples).toEqual([0, 2]);
    const all = { logprobs: [[9, 800], [800, 800, 9], [800], [800, 800], [800], [800]] };
    await expect(run("zero", all)).rejects.toMatchObject({ code: "ERR_NON_FINITE" });
    await expect(run("skip", all)).rejects.toMatchObject({ code: "ERR_NON_FINITE" });
  });

  it("throws whatever the policy where no sample is to blame", async () => {
    const divided = defineLoss({
      params: { zero: 0 },
      loss: ({ logprobs, zero }) => logprobs.sum().div(zero),
    });
    const batch = await createBatch({ ...options, precision });
    for (const nonFinite of ["zero", "skip"] as const) {
      await expect(engines[executor].run(divided, batch, { nonFinite })).rejects.toMatchObject({
        code: "ERR_NON_FINITE",
        op: "div",
        samples: [],
      });
    }
  });

  it("throws where those to blame have no trained token to leave out", async () => {
    const cases = [
      // A zero per sample, an empty sample from the start, one that was emptied before.
      defineLoss({
        inputs: { advantages: perSample() },
        loss: ({ logprobs, advantages }) => logprobs.sum("sample").add(advantages.sub(1).log()).sum(),
      }),
      defineLoss({ loss: ({ logprobs }) => logprobs.exp().mean("sample").log().sum() }),
    ];
    const empty = await createBatch({
      ...options,
      weights: [[0, 1], [0, 0, 0], [1], [1, 1], [1], [1]],
      precision,
    });
    for (const nonFinite of ["zero", "skip"] as const) {
      const outcome = engines[executor].run(cases[0]!, await createBatch({ ...options, precision }), {
        nonFinite,
      });
      if (nonFinite === "zero")
        await expect(outcome).rejects.toMatchObject({ code: "ERR_NON_FINITE", sample: 0 });
      else expect((await outcome).nonFiniteSamples).toEqual([0]);
    }
    await expect(engines[executor].run(cases[1]!, empty, { nonFinite: "zero" })).rejects.toMatchObject({
      code: "ERR_NON_FINITE",
    });
  });

  it("skip is refused where samples are gathered by number", async () => {
    const gathering = defineLoss({
      inputs: { advantages: perSample() },
      loss: ({ logprobs, advantages }) => logprobs.sum("sample").gather(advantages.mul(0)).sum(),
    });
    const batch = await createBatch({ ...options, precision });
    await expect(engines[executor].run(gathering, batch, { nonFinite: "skip" })).rejects.toMatchObject({
      code: "ERR_INPUT",
      path: "nonFinite",
    });
  });

  it("does not blame an infinity that went nowhere", async () => {
    // Sample 0 overflows too, but its minimum takes the other side; sample 1 lets its infinity through.
    const clipped = defineLoss({
      inputs: { advantages: perSample() },
      loss: ({ logprobs, advantages }) => {
        const ratio = logprobs.exp();
        return ratio.mul(advantages).minimum(ratio.clamp(0.8, 1.2).mul(advantages)).neg().mean();
      },
    });
    const batch = await createBatch({
      weights: [[1], [1]],
      logprobs: [[800], [800]],
      inputs: { advantages: [1, -1] },
      precision,
    });
    await expect(engines[executor].run(clipped, batch)).rejects.toMatchObject({ sample: 1, op: "exp" });
  });

  it("refuses an unknown policy", async () => {
    const batch = await createBatch({ ...options, precision });
    const wrong = { nonFinite: "ignore" as "zero" };
    await expect(engines[executor].run(loss, batch, wrong)).rejects.toMatchObject({
      code: "ERR_INPUT",
      path: "nonFinite",
    });
  });
});
