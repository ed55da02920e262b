// Means that divide by the wrong number: empty samples, whole rows instead of trained tokens, twice by the same count.
import { describe, expect, it } from "vitest";
import { createBatch } from "../../src/engine/batch.ts";
import { defineLoss, perToken } from "../../src/loss/define.ts";
import { regularizedSft } from "../../src/losses/supervised.ts";
import { computeCustomForwardBackward } from "../../src/training/custom-loss.ts";
import { completed, rejection, scriptedSession } from "../client/server.ts";
import { EXECUTIONS, useEngines } from "../engine/ops/batch.ts";
import { runner } from "./helpers.ts";

const engines = useEngines();

const nll = defineLoss({ loss: ({ logprobs }) => logprobs.neg().mean("sample").mean() });

describe.each(EXECUTIONS)("on $executor in $precision", (execution) => {
  const run = runner(engines, execution);

  it("a sample without trained tokens counts 0 and does not make NaN of the batch", async () => {
    const rows = [
      [0, -1, -2],
      [0, 0, 0],
    ];
    const byHand = defineLoss({
      inputs: { reference: perToken() },
      params: { beta: 0 },
      loss: ({ logprobs, reference, beta }) => {
        const drift = logprobs.sub(reference).square().mean("sample");
        return logprobs.neg().mean("sample").add(drift.mul(beta)).mean();
      },
    });
    for (const loss of [byHand, regularizedSft({ beta: 0 })]) {
      const result = await run(loss, {
        weights: [
          [0, 1, 1],
          [0, 0, 0],
        ],
        logprobs: rows,
        inputs: { reference: rows },
      });
      expect(result).toMatchObject({
        loss: 0.75,
        gradients: [
          [0, -0.25, -0.25],
          [0, 0, 0],
        ],
        emptySamples: 1,
      });
    }
  });

  it("a mean runs over the trained tokens, never over the row", async () => {
    const batch = { weights: [[0, 0, 1, 1]], logprobs: [[0, 0, -2, -4]] };
    const whole = defineLoss({ loss: ({ logprobs }) => logprobs.neg().mean() });
    for (const loss of [whole, nll]) {
      expect(await run(loss, batch)).toMatchObject({ loss: 3, gradients: [[0, 0, -0.5, -0.5]] });
    }
  });

  it("no gradient comes at a position of weight 0, which the service would throw away", async () => {
    const sum = defineLoss({ loss: ({ logprobs }) => logprobs.sum().neg() });
    expect(await run(sum, { weights: [[0, 1, 0], [1]], logprobs: [[-1, -2, -3], [-4]] })).toMatchObject({
      loss: 6,
      gradients: [[0, -1, 0], [-1]],
    });
  });

  it("the literal 0 / 0 of a masked mean written by hand is refused, naming the empty sample", async () => {
    const byHand = defineLoss({
      loss: ({ logprobs, weights }) => logprobs.mul(weights).sum("sample").div(weights.sum("sample")).mean(),
    });
    await expect(run(byHand, { weights: [[1], [0]], logprobs: [[-1], [0]] })).rejects.toMatchObject({
      code: "ERR_NON_FINITE",
      op: "div",
      sample: 1,
      operands: [0, 0],
    });
  });
});

const sample = (weights: number[]) => ({
  tokens: weights.map(() => 1),
  targets: weights.map(() => 2),
  weights,
});

it("a batch without a trained token is refused before any request", async () => {
  const { session, requests } = await scriptedSession([]);
  const step = computeCustomForwardBackward(session, [sample([0, 0]), sample([0])], nll, {
    engine: engines.fused,
  });
  expect(await rejection(step)).toMatchObject({ code: "ERR_EMPTY_BATCH" });
  expect(requests).toEqual([]);
});

it("gradients are computed before a batch is split: eight samples at once or four and four are the same bits", async () => {
  const samples = Array.from({ length: 8 }, (_, i) => sample(Array(i + 1).fill(1)));
  const logprobs = samples.map(({ weights }, i) => weights.map((_, t) => -Math.fround(0.1 + i / 7 + t / 3)));
  const batch = await createBatch({ weights: samples.map(({ weights }) => weights), logprobs });
  const squared = defineLoss({ loss: ({ logprobs }) => logprobs.square().mean("sample").mean() });
  const { gradients } = await engines.fused.run(squared, batch);

  const sent = async (...parts: readonly (readonly [number, number])[]) => {
    const { session, requests } = await scriptedSession(parts.map(() => completed({})));
    const rows = [...gradients];
    for (const [begin, end] of parts) {
      await session.customForwardBackward(samples.slice(begin, end), rows.slice(begin, end));
    }
    expect(requests).toHaveLength(parts.length);
    return requests.flatMap(
      ({ body }) => (JSON.parse(body) as { gradients: { data: number[] }[] }).gradients,
    );
  };
  const whole = await sent([0, 8]);
  expect(whole).toHaveLength(8);
  expect(await sent([0, 4], [4, 8])).toEqual(whole);
});
