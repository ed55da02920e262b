// What a loss is given beside the log-probabilities: whatever it declares, of one value per element, under its own name.
import { describe, expect, it } from "vitest";
import { checkBatch } from "../../src/engine/arguments.ts";
import { type BatchOptions, createBatch } from "../../src/engine/batch.ts";
import { defineLoss, perGroup, perSample, perToken } from "../../src/loss/define.ts";
import { EXECUTIONS, useEngines } from "../engine/ops/batch.ts";
import { runner } from "./helpers.ts";

const engines = useEngines();

const loss = defineLoss({
  inputs: { advantages: perSample(), reference: perToken() },
  loss: ({ logprobs, advantages, reference }) => logprobs.sub(reference).mul(advantages).sum(),
});
const given = {
  weights: [
    [0, 1, 1],
    [1, 1, 0],
  ],
  logprobs: [
    [9, -1, -2],
    [-3, -4, 9],
  ],
  inputs: { advantages: [2, -1], reference: [-0.5, -0.5, -0.5, -0.5] },
};
const refusal = async (changes: object) => {
  const error = await createBatch({ ...given, ...changes } as BatchOptions).then(
    () => {
      throw new Error("nothing was refused");
    },
    (error) => error,
  );
  expect(error).toMatchObject({ name: "InputError", code: "ERR_INPUT" });
  return error as { message: string; sample?: number; position?: number };
};

it.each(EXECUTIONS)(
  "values per token and per sample are inputs of any loss: $executor, $precision",
  async (execution) => {
    const result = await runner(engines, execution)(loss, given);
    expect(result.loss).toBe(2 * (-0.5 - 1.5) - (-2.5 - 3.5));
    expect(result.gradients).toEqual([
      [0, 2, 2],
      [-1, -1, 0],
    ]);
  },
);

it("several values at one position are refused with the place and with what to do instead", async () => {
  const candidates = [[9, [-1, -2, -3], [-2, -3, -4]], given.logprobs[1]];
  for (const [path, changes] of [
    ["logprobs", { logprobs: candidates }],
    ["inputs.reference", { inputs: { ...given.inputs, reference: candidates } }],
  ] as const) {
    const error = await refusal(changes);
    expect(error).toMatchObject({ path, sample: 0, position: 1 });
    expect(error.message).toContain(
      "expected one number per target position (candidates of one position are samples of a group), got an array of 3",
    );
  }
});

it("candidates of one position are expressed as samples of a group", async () => {
  const distill = defineLoss({
    inputs: { teacher: perToken() },
    loss: ({ logprobs, teacher }) => teacher.mul(logprobs.logSoftmax("group")).sum("group").neg().mean(),
  });
  const weights = [
    [0, 1],
    [0, 1],
    [0, 1],
  ];
  const batch = await createBatch({
    weights,
    logprobs: [-1, -1, -1],
    groups: 3,
    inputs: { teacher: [0.5, 0.25, 0.25] },
  });
  const { loss: value, gradients } = await engines.fused.run(distill, batch);
  expect(value).toBeCloseTo(Math.log(3), 6);
  [1 / 3 - 0.5, 1 / 3 - 0.25, 1 / 3 - 0.25].forEach((slope, i) => {
    expect(gradients.row(i)[1]).toBeCloseTo(slope, 6);
  });
});

describe("an input of the wrong length", () => {
  const three = { inputs: { ...given.inputs, advantages: [1, 2, 3] } };

  it("is told all that it could be where the loss is not known", async () => {
    expect((await refusal(three)).message).toBe(
      "inputs.advantages: expected 2 rows of full length or 4 numbers (one per trained token) or 2 numbers (one per sample) " +
        "or 2 numbers (one per group), got an array of 3",
    );
  });

  it("is told only what the loss declares where it is", async () => {
    expect((await refusal({ ...three, loss })).message).toBe(
      "inputs.advantages: expected 2 numbers (one per sample), got an array of 3",
    );
    const rows = { inputs: { ...given.inputs, advantages: given.weights }, loss };
    expect((await refusal(rows)).message).toBe(
      "inputs.advantages: expected 2 numbers (one per sample), got 2 rows",
    );
    const short = { inputs: { ...given.inputs, reference: [1, 2] }, loss };
    expect((await refusal(short)).message).toBe(
      "inputs.reference: expected 2 rows of full length or 4 numbers (one per trained token), got an array of 2",
    );
    const batch = await createBatch({ weights: given.weights, loss });
    await expect(batch.with(three)).rejects.toThrow("expected 2 numbers (one per sample), got an array of 3");
  });

  it("is told only what the loss declares at the run, and before it by checkBatch", async () => {
    const batch = await createBatch({ ...given, inputs: { ...given.inputs, advantages: [1, 2, 3, 4] } });
    const message = "inputs.advantages: expected 2 numbers (one per sample), got an array of 4";
    await expect(engines.fused.run(loss, batch)).rejects.toThrow(message);
    expect(() => checkBatch(loss, batch)).toThrow(message);
  });
});

describe("an input that no loss of the batch declares", () => {
  const near = { advantage: [2, -1], reference: given.inputs.reference };

  it("is passed over: one batch may serve several losses", async () => {
    const batch = await createBatch({ ...given, inputs: { ...given.inputs, margin: [1, 2] } });
    const other = defineLoss({
      inputs: { margin: perGroup() },
      loss: ({ logprobs, margin }) => logprobs.mul(margin).sum(),
    });
    expect((await engines.fused.run(loss, batch)).loss).toBe(2);
    expect((await engines.fused.run(other, batch)).loss).toBe(-3 - 14);
  });

  it("is named where a declared one is missing and was probably meant", async () => {
    const batch = await createBatch({ ...given, inputs: near });
    const message =
      "inputs.advantages: expected 2 numbers (one per sample), got nothing; did you mean advantage, which the batch has?";
    await expect(engines.fused.run(loss, batch)).rejects.toThrow(message);
    expect(() => checkBatch(loss, batch)).toThrow(message);
  });

  it("is not named where nothing like it was declared, or it is declared itself", async () => {
    const batch = await createBatch({ ...given, inputs: { reference: given.inputs.reference, x: [1, 2] } });
    await expect(engines.fused.run(loss, batch)).rejects.toThrow(/got nothing$/);
    const twins = defineLoss({
      inputs: { reference: perToken(), references: perToken() },
      loss: ({ logprobs, reference, references }) => logprobs.mul(reference).mul(references).sum(),
    });
    await expect(engines.fused.run(twins, batch)).rejects.toThrow(/^inputs\.references: .* got nothing$/);
  });
});
