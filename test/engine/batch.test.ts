// Building batches: what is accepted, what is refused and how it is named, and that nothing of it is shared.
import { describe, expect, it } from "vitest";
import { type Batch, type BatchOptions, createBatch } from "../../src/engine/batch.ts";
import { EmptyBatchError } from "../../src/engine/errors.ts";
import { InputError } from "../../src/errors.ts";
import { defineLoss, perGroup, perSample, perToken } from "../../src/loss/define.ts";
import { useEngine } from "./helpers.ts";

const held = useEngine();
const sum = defineLoss({ loss: ({ logprobs }) => logprobs.sum() });
const good: BatchOptions = {
  weights: [
    [0, 1, 2],
    [0, 0],
    [0.5, 0, 1],
  ],
  logprobs: [
    [9, -1, -2],
    [9, 9],
    [-3, 9, -4],
  ],
};
const lossOf = async (batch: Batch) => (await held.engine.run(sum, batch)).loss;
const refusal = async (options: object) => {
  const error = await createBatch(options as BatchOptions).catch((error: unknown) => error);
  expect(error).toBeInstanceOf(InputError);
  const { path, sample, position, message } = error as InputError;
  return { path, sample, position, message };
};

describe("createBatch", () => {
  it("counts samples, trained tokens and empty samples", async () => {
    const batch = await createBatch(good);
    expect(batch).toMatchObject({ samples: 3, trainedTokens: 4, emptySamples: 1, precision: "float32" });
    expect(await lossOf(batch)).toBe(-10);
  });

  it("takes typed rows, plain rows, and packed lists alike", async () => {
    const typed = good.logprobs as number[][];
    for (const logprobs of [
      typed.map((row) => Float32Array.from(row)),
      typed.map((row) => Float64Array.from(row)),
      typed.map((row) => Int8Array.from(row)),
      Float32Array.of(-1, -2, -3, -4),
      Float64Array.of(-1, -2, -3, -4),
      [-1, -2, -3, -4],
    ]) {
      for (const precision of ["float32", "float64"] as const) {
        expect(await lossOf(await createBatch({ ...good, logprobs, precision }))).toBe(-10);
      }
    }
  });

  it("does not read untrained positions", async () => {
    const logprobs = [
      [Number.NaN, -1, -2],
      [Infinity, Number.NaN],
      [-3, Number.NaN, -4],
    ];
    const { loss, gradients } = await held.engine.run(sum, await createBatch({ ...good, logprobs }));
    expect(loss).toBe(-10);
    expect([...gradients].map((row) => [...row])).toEqual([
      [0, 1, 1],
      [0, 0],
      [1, 0, 1],
    ]);
  });

  it("makes the weights an input", async () => {
    const weighted = defineLoss({ loss: ({ logprobs, weights }) => logprobs.mul(weights).sum() });
    expect((await held.engine.run(weighted, await createBatch(good))).loss).toBe(-1 - 4 - 1.5 - 4);
  });

  it("shares nothing with what it was made from", async () => {
    const logprobs = Float32Array.of(-1, -2, -3, -4);
    const weights = [Float32Array.of(0, 1, 2), [0, 0], [0.5, 0, 1]];
    const batch = await createBatch({ ...good, weights, logprobs });
    logprobs.fill(7);
    weights[0]!.fill(0);
    structuredClone(logprobs, { transfer: [logprobs.buffer] });
    expect(await lossOf(batch)).toBe(-10);
  });

  it("handles many short runs and one long row", async () => {
    const length = 100_001;
    const alternating = Float32Array.from({ length }, (_, i) => i % 2);
    const logprobs = Float64Array.from({ length }, (_, i) => i);
    for (const weights of [alternating, [...alternating], new Float32Array(length).fill(1)]) {
      const batch = await createBatch({ weights: [weights], logprobs: [logprobs], precision: "float64" });
      const { gradients, loss } = await held.engine.run(sum, batch, { dtype: "float64" });
      expect([...gradients.row(0)]).toEqual([...weights]);
      expect(loss).toBe([...weights].reduce((total, weight, i) => total + weight * i, 0));
    }
  });

  it("refuses a batch without a trained token", async () => {
    await expect(createBatch({ weights: [[0], [0, 0]], logprobs: [[0], [0, 0]] })).rejects.toThrow(
      EmptyBatchError,
    );
    await expect(createBatch({ weights: [[]], logprobs: [[]] })).rejects.toMatchObject({
      code: "ERR_EMPTY_BATCH",
    });
  });

  it.each([-1, -1e-30, Number.NaN, Infinity, -Infinity, "1", null, undefined, 1n, {}])(
    "refuses the weight %s, naming sample and position",
    async (weight) => {
      const weights = [
        [0, 1, 2],
        [0, 0],
        [0.5, 0, weight],
      ];
      expect(await refusal({ ...good, weights })).toMatchObject({ path: "weights", sample: 2, position: 2 });
    },
  );

  it.each(["-1", null, undefined, 1n, {}, [1]])(
    "refuses %s where a log-probability belongs",
    async (value) => {
      const logprobs = [
        [0, -1, value],
        [0, 0],
        [-3, 0, -4],
      ];
      expect(await refusal({ ...good, logprobs })).toMatchObject({
        path: "logprobs",
        sample: 0,
        position: 2,
      });
    },
  );

  it("refuses rows of the wrong number, length or kind", async () => {
    const rows = good.logprobs as number[][];
    expect(await refusal({ ...good, logprobs: rows.slice(1) })).toMatchObject({
      path: "logprobs",
      message: "logprobs: expected 3 rows, one per sample, got 2",
    });
    expect(await refusal({ ...good, logprobs: [rows[0], [1, 2, 3], rows[2]] })).toMatchObject({
      sample: 1,
      message: "logprobs, sample 1: expected a row of 2 numbers, got an array of 3",
    });
    for (const row of [
      "12",
      null,
      12,
      new BigInt64Array(2),
      new DataView(new ArrayBuffer(2)),
      { length: 2 },
    ]) {
      expect(await refusal({ ...good, logprobs: [rows[0], row, rows[2]] })).toMatchObject({ sample: 1 });
      expect(await refusal({ ...good, weights: [[1, 1, 1], row, [1, 1, 1]] })).toMatchObject({
        path: "weights",
        sample: 1,
      });
    }
    expect(await refusal({ ...good, logprobs: [-1, -2, -3] })).toMatchObject({ path: "logprobs" });
    for (const weights of [[], undefined, 7, new Float32Array(3)]) {
      expect(await refusal({ ...good, weights })).toMatchObject({ path: "weights" });
    }
  });

  it("refuses groups that do not cover the samples", async () => {
    for (const groups of [2, 0, -1, 1.5, Number.NaN, [1, 1], [3, 1], [2, 1, 0], [1.5, 1.5], ["3"], "3", {}]) {
      expect((await refusal({ ...good, groups })).path).toMatch(/^groups/);
    }
    await createBatch({ ...good, groups: 3 });
    await createBatch({ ...good, groups: [1, 2] });
  });

  it("refuses unknown options with the one that was meant", async () => {
    expect((await refusal({ ...good, logprob: [] })).message).toContain("did you mean logprobs?");
    expect(await refusal({ ...good, precision: "bfloat16" })).toMatchObject({ path: "precision" });
    expect(await refusal({ ...good, inputs: { weights: [] } })).toMatchObject({ path: "inputs.weights" });
    expect(await refusal({ ...good, inputs: [[1]] })).toMatchObject({ path: "inputs" });
    expect(await refusal({ ...good, inputs: { reference: [1] } })).toMatchObject({
      path: "inputs.reference",
    });
    expect(await refusal({ ...good, inputs: { reference: 1 } })).toMatchObject({ path: "inputs.reference" });
  });
});

describe("inputs", () => {
  const loss = defineLoss({
    inputs: { reference: perToken(), advantages: perSample(), prior: perGroup() },
    loss: ({ logprobs, reference, advantages, prior }) =>
      logprobs.mul(reference).sum("sample").mul(advantages).sum("group").mul(prior).sum(),
  });
  const inputs = {
    reference: [
      [0, 1, 2],
      [0, 0],
      [3, 0, 4],
    ],
    advantages: [10, 20, 30],
    prior: [100, 1000],
  };
  const expected = -5 * 10 * 100 - 25 * 30 * 1000;

  it("are read by the axis that the loss declares", async () => {
    const batch = await createBatch({ ...good, groups: [2, 1], inputs });
    expect((await held.engine.run(loss, batch)).loss).toBe(expected);
    const packed = await createBatch({
      ...good,
      groups: [2, 1],
      inputs: { ...inputs, reference: [1, 2, 3, 4] },
    });
    expect((await held.engine.run(loss, packed)).loss).toBe(expected);
  });

  it("of one number per everything fit every axis", async () => {
    const one = { weights: [[1], [1]], logprobs: [[-1], [-2]], inputs: { x: [3, 4] } };
    const batch = await createBatch(one);
    for (const axis of [perToken(), perSample(), perGroup()]) {
      const any = defineLoss({ inputs: { x: axis }, loss: ({ logprobs, x }) => logprobs.mul(x).sum() });
      expect((await held.engine.run(any, batch)).loss).toBe(-11);
    }
  });

  it.each([
    ["missing", { reference: inputs.reference, advantages: inputs.advantages }, "inputs.prior"],
    ["of another axis", { ...inputs, advantages: inputs.reference }, "inputs.advantages"],
    ["of the wrong count for the axis", { ...inputs, prior: [1, 2, 3] }, "inputs.prior"],
  ])("that are %s are refused at the run", async (_, inputs, path) => {
    const batch = await createBatch({ ...good, groups: [2, 1], inputs });
    await expect(held.engine.run(loss, batch)).rejects.toMatchObject({ code: "ERR_INPUT", path });
  });
});

describe("with", () => {
  it("replaces values and keeps the rest", async () => {
    const shifted = defineLoss({
      inputs: { reference: perToken() },
      loss: ({ logprobs, reference }) => logprobs.sub(reference).sum(),
    });
    const batch = await createBatch({ ...good, inputs: { reference: [1, 1, 1, 1] } });
    const next = await batch.with({ logprobs: Float32Array.of(1, 2, 3, 4) });
    expect((await held.engine.run(shifted, next)).loss).toBe(6);
    expect((await held.engine.run(shifted, batch)).loss).toBe(-14);
    const both = await next.with({ inputs: { reference: good.weights } });
    expect((await held.engine.run(shifted, both)).loss).toBe(10 - 4.5);
    expect(both).toMatchObject({ samples: 3, trainedTokens: 4, emptySamples: 1 });
  });

  it("adds log-probabilities that were not known before", async () => {
    const { logprobs, ...rest } = good;
    const batch = await createBatch(rest);
    await expect(held.engine.run(sum, batch)).rejects.toMatchObject({ code: "ERR_INPUT", path: "logprobs" });
    expect(await lossOf(await batch.with({ logprobs }))).toBe(-10);
  });

  it("refuses what does not fit the layout", async () => {
    const batch = await createBatch(good);
    await expect(batch.with({ logprobs: [1, 2] })).rejects.toMatchObject({ path: "logprobs" });
    await expect(batch.with({ weights: [[1]] } as never)).rejects.toThrow("with.weights");
  });
});
