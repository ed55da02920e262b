// Gradients that naive code makes NaN or wrong: branches not taken, infinities, masks, kinks, detached values.
import { describe, expect, it } from "vitest";
import { createBatch } from "../../src/engine/batch.ts";
import { defineLoss, perToken } from "../../src/loss/define.ts";
import { EXECUTIONS, useEngines } from "../engine/ops/batch.ts";
import { FAR, OWN, runner } from "./helpers.ts";

const engines = useEngines();

const overflowing = defineLoss({ loss: ({ logprobs: x }) => x.le(0).where(x.exp(), x.add(1)).sum() });

describe.each(OWN)("where, on $executor in $precision,", (execution) => {
  const run = runner(engines, execution);

  it("keeps nothing of a branch that was not taken, though it overflows", async () => {
    const far = FAR[execution.precision];
    expect(await run(overflowing, { weights: [[1]], logprobs: [[far]] })).toMatchObject({
      loss: far + 1,
      gradients: [[1]],
    });
  });

  it("keeps nothing of a branch that is NaN, nested branches included", async () => {
    const loss = defineLoss({
      loss: ({ logprobs: x }) => {
        const inner = x.lt(-1).where(x.sqrt(), x.log());
        return x
          .gt(0)
          .where(inner, x.gt(-1).where(x.mul(3), x.mul(5)))
          .sum();
      },
    });
    expect(await run(loss, { weights: [[1, 1]], logprobs: [[-0.5, -2]] })).toMatchObject({
      loss: -11.5,
      gradients: [[3, 5]],
    });
  });
});

it("where, by libtorch's autograd, makes NaN of a branch that was not taken, and that is refused", async () => {
  const run = runner(engines, { executor: "autograd", precision: "float64" });
  await expect(run(overflowing, { weights: [[1]], logprobs: [[FAR.float64]] })).rejects.toMatchObject({
    code: "ERR_NON_FINITE",
    sample: 0,
    position: 0,
  });
});

describe.each(EXECUTIONS)("on $executor in $precision", (execution) => {
  const run = runner(engines, execution);
  it("logsumexp of nothing but minus infinity counts 0 where its sample is scaled by 0", async () => {
    const loss = defineLoss({
      inputs: { keep: perToken() },
      loss: ({ logprobs, keep }) => {
        const masked = keep.gt(0).where(logprobs, -Infinity);
        return keep.max("sample").scale(masked.logsumexp("sample")).sum();
      },
    });
    const result = await run(loss, {
      weights: [
        [1, 1],
        [1, 1],
      ],
      logprobs: [
        [-1, -2],
        [-1, -1],
      ],
      inputs: {
        keep: [
          [0, 0],
          [1, 1],
        ],
      },
    });
    expect(result.loss).toBeCloseTo(-1 + Math.LN2, 6);
    expect(result.gradients[0]).toEqual([0, 0]);
    expect(result.gradients[1]![0]).toBeCloseTo(0.5, 6);
  });

  it("minus infinity multiplied by 0 is refused by name, not sent as NaN", async () => {
    const loss = defineLoss({
      loss: ({ logprobs }) => logprobs.lt(-5).where(logprobs, -Infinity).logsumexp("sample").mul(0).sum(),
    });
    await expect(run(loss, { weights: [[1, 1]], logprobs: [[-1, -2]] })).rejects.toMatchObject({
      code: "ERR_NON_FINITE",
      op: "logsumexp",
      sample: 0,
    });
  });

  it("logSigmoid keeps value and slope far out", async () => {
    const loss = defineLoss({ loss: ({ logprobs }) => logprobs.logSigmoid().sum() });
    expect(await run(loss, { weights: [[1]], logprobs: [[-1000]] })).toMatchObject({
      loss: -1000,
      gradients: [[1]],
    });
  });

  it("logSoftmax of one finite value among minus infinities is 0 with finite gradients", async () => {
    const loss = defineLoss({
      loss: ({ logprobs }) => {
        const finite = logprobs.gt(-2);
        return finite.where(finite.where(logprobs, -Infinity).logSoftmax("sample"), 0).sum();
      },
    });
    expect(await run(loss, { weights: [[1, 1, 1, 1]], logprobs: [[-3, -1, -4, -5]] })).toMatchObject({
      loss: 0,
      gradients: [[0, 0, 0, 0]],
    });
  });

  it("masked positions that hold minus infinity or NaN leak into nothing", async () => {
    const batch = { weights: [[1, 0, 0]], logprobs: [[-1, -Infinity, Number.NaN]] };
    const sum = defineLoss({ loss: ({ logprobs }) => logprobs.sum() });
    const weighted = defineLoss({
      loss: ({ logprobs, weights }) => logprobs.mul(weights).mean("sample").mean(),
    });
    for (const loss of [sum, weighted]) {
      expect(await run(loss, batch)).toMatchObject({ loss: -1, gradients: [[1, 0, 0]] });
    }
  });

  it("the kink of clamp takes the slope 1 at its bounds, as PyTorch does", async () => {
    const loss = defineLoss({ loss: ({ logprobs }) => logprobs.clamp(1, 1).sum() });
    expect(await run(loss, { weights: [[1, 1, 1, 1]], logprobs: [[0, 1, 2, 3]] })).toMatchObject({
      loss: 4,
      gradients: [[0, 1, 0, 0]],
    });
  });

  it("a ratio to its own detached self is always 1 and still trains", async () => {
    const loss = defineLoss({
      params: { advantage: 2 },
      loss: ({ logprobs, advantage }) => logprobs.sub(logprobs.detach()).exp().mul(advantage).mean().neg(),
    });
    expect(await run(loss, { weights: [[1, 1]], logprobs: [[-1, -2]] })).toMatchObject({
      loss: -2,
      gradients: [[-1, -1]],
    });
  });

  it("a straight-through estimator has the value of one branch and the slope of the other", async () => {
    const loss = defineLoss({
      loss: ({ logprobs }) => {
        const soft = logprobs.mul(3);
        const hard = logprobs.floor();
        return soft.add(hard.sub(soft).detach()).sum();
      },
    });
    expect(await run(loss, { weights: [[1, 1]], logprobs: [[-0.5, -1.5]] })).toMatchObject({
      loss: -3,
      gradients: [[3, 3]],
    });
  });
});

describe("the gradient checker", () => {
  const rows = (f: (i: number) => number) => [[0, 1, 2].map(f)];
  const given = () =>
    createBatch({
      weights: rows(() => 1),
      logprobs: rows((i) => Math.fround(-0.7 * i - 0.3)),
      inputs: { reference: rows((i) => Math.fround(-0.6 * i - 0.4)) },
    });

  it("does not take float32 inputs for wrong gradients: it computes in float64", async () => {
    const square = defineLoss({
      inputs: { reference: perToken() },
      loss: ({ logprobs, reference }) => logprobs.sub(reference).square().mean(),
    });
    const k3 = defineLoss({
      inputs: { reference: perToken() },
      loss: ({ logprobs, reference }) => {
        const difference = reference.sub(logprobs);
        return difference.exp().sub(difference).sub(1).mean();
      },
    });
    for (const loss of [square, k3]) {
      const { passed, inputs } = await engines.fused.checkGradients(loss, await given(), { tolerance: 1e-6 });
      expect(passed).toBe(true);
      for (const input of inputs) expect(input.relativeError).toBeLessThan(1e-6);
    }
  });

  it("reports a kink as a kink, not as a wrong gradient", async () => {
    const loss = defineLoss({ loss: ({ logprobs }) => logprobs.clamp(1, 1).sum() });
    const batch = await createBatch({ weights: [[1, 1, 1, 1]], logprobs: [[0, 1, 2, 3]] });
    const { passed, inputs } = await engines.torch.checkGradients(loss, batch);
    expect(passed).toBe(true);
    expect(inputs[0]).toMatchObject({ name: "logprobs", kinks: 1 });
  });
});
