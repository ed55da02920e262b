// Number formats: what is computed in bfloat16 and what is not, its rounding at the corners, log-probabilities above 0.
import { afterEach, describe, expect, it, vi } from "vitest";
import { type BatchOptions, createBatch } from "../../src/engine/batch.ts";
import { toFloat32 } from "../../src/engine/bfloat16.ts";
import { defineLoss, perToken } from "../../src/loss/define.ts";
import { EXECUTIONS, useEngines } from "../engine/ops/batch.ts";
import { runner } from "./helpers.ts";

const engines = useEngines();

/** The nearest bfloat16, ties to even, for finite numbers. */
const bfloat16 = (x: number) => {
  const bits = new Uint32Array(Float32Array.of(x).buffer)[0]!;
  return toFloat32(Uint16Array.of((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16))[0]!;
};

/** Its gradients are the factors. */
const scaled = defineLoss({
  inputs: { factors: perToken() },
  loss: ({ logprobs, factors }) => logprobs.mul(factors).sum(),
});
const factorsBatch = (factors: readonly number[]) => ({
  weights: [factors.map(() => 1)],
  logprobs: [factors.map(() => 0)],
  inputs: { factors },
});

describe.each(EXECUTIONS)("on $executor in $precision", (execution) => {
  const run = runner(engines, execution);

  it("log-probabilities rounded to bfloat16 are computed with in full; only the gradient is rounded", async () => {
    const k3 = defineLoss({
      inputs: { reference: perToken() },
      loss: ({ logprobs, reference }) => {
        const difference = reference.sub(logprobs);
        return difference.exp().sub(difference).sub(1).sum();
      },
    });
    const logprobs = Array.from({ length: 50 }, (_, i) => bfloat16(-0.01 * 1.17 ** i));
    const reference = logprobs.map((x) => Math.fround(x + 0.01));
    const batch = { weights: [logprobs.map(() => 1)], logprobs, inputs: { reference } };
    const { gradients } = await run(k3, batch, { dtype: "bfloat16" });
    toFloat32(Uint16Array.from(gradients[0]!)).forEach((gradient, i) => {
      const exact = -Math.expm1(reference[i]! - logprobs[i]!);
      expect(Math.abs(gradient - exact)).toBeLessThanOrEqual(2 ** -8 * Math.abs(exact));
    });
  });

  it.each([
    ["down to even", 1.00390625, 0x3f80, 1],
    ["up to even", 1.01171875, 0x3f82, 1.015625],
    ["to nearest", 0.1, 0x3dcd, 0.10009765625],
    ["to nearest below 0", -0.0425557, 0xbd2e, -0.04248046875],
    ["the largest that stays finite", 3.3895314e38, 0x7f7f, 3.3895313892515355e38],
    ["subnormals", 1e-40, 0x0001, 9.183549615799121e-41],
    ["minus zero", -0, 0x8000, -0],
  ])("gradients are rounded to bfloat16: %s", async (_, value, bits, read) => {
    const { gradients } = await run(scaled, factorsBatch([value]), { dtype: "bfloat16" });
    expect(gradients).toEqual([[bits]]);
    expect(toFloat32(Uint16Array.from(gradients[0]!))[0]).toBe(read);
  });

  it("what bfloat16 rounds to infinity is refused before it is sent", async () => {
    const batch = factorsBatch([1, 3.4e38]);
    await expect(run(scaled, batch, { dtype: "bfloat16" })).rejects.toMatchObject({
      code: "ERR_NON_FINITE",
      sample: 0,
      position: 1,
      message: expect.stringContaining("a value that bfloat16 can hold"),
    });
    expect((await run(scaled, batch)).gradients[0]![0]).toBe(1);
  });

  it("a NaN whose upper half alone would read as infinity stays NaN and is refused", async () => {
    const nan = new Float32Array(Uint32Array.of(0x7f800001).buffer);
    const given = { weights: [[1]], logprobs: [[-1]], inputs: { factors: [nan] } };
    await expect(run(scaled, given)).rejects.toMatchObject({
      path: "inputs.factors",
      sample: 0,
      position: 0,
      message: expect.stringContaining("got NaN"),
    });
    const made = defineLoss({ loss: ({ logprobs }) => logprobs.log().sum() });
    await expect(
      run(made, { weights: [[1]], logprobs: [[-1]] }, { dtype: "bfloat16" }),
    ).rejects.toMatchObject({
      code: "ERR_NON_FINITE",
      value: Number.NaN,
    });
  });

  it("log-probabilities above 0 are NaN to log1mexp, named with their place; held at 0 they are not", async () => {
    const complement = defineLoss({
      loss: ({ logprobs }) =>
        logprobs.clamp(undefined, -1e-6).log1mexp().sum("sample").add(logprobs.exp().sum("sample")).mean(),
    });
    const raw = defineLoss({ loss: ({ logprobs }) => logprobs.log1mexp().sum() });
    const batch = { weights: [[0, 1, 1]], logprobs: [[0, 0.03, -0.5]] };
    await expect(run(raw, batch)).rejects.toMatchObject({ op: "log1mexp", sample: 0, position: 1 });
    const { loss, gradients } = await run(complement, { ...batch, clampLogprobs: true });
    expect(loss).toBeCloseTo(
      Math.log1p(-Math.exp(-1e-6)) + Math.log1p(-Math.exp(-0.5)) + 1 + Math.exp(-0.5),
      4,
    );
    expect(gradients[0]!.slice(0, 2)).toEqual([0, 1]);
  });
});

describe("log-probabilities above 0", () => {
  afterEach(() => {
    vi.restoreAllMocks();
    vi.resetModules();
  });
  const given: BatchOptions = { weights: [[0, 1, 1], [1]], logprobs: [[9, -1, 0.03125], [0.125]] };

  /** A batch module that has not warned yet, and what it warns. */
  async function fresh() {
    vi.resetModules();
    const warnings: unknown[][] = [];
    vi.spyOn(process, "emitWarning").mockImplementation((...args) => void warnings.push(args));
    const { createBatch } = await import("../../src/engine/batch.ts");
    return { createBatch, warnings };
  }

  it("are counted at trained positions, and warned of once in a process with the largest and the first place", async () => {
    const { createBatch, warnings } = await fresh();
    expect((await createBatch({ ...given, logprobs: [[9, 0, -1], [-0]] })).positiveLogprobs).toBe(0);
    expect(warnings).toEqual([]);
    expect((await createBatch(given)).positiveLogprobs).toBe(2);
    expect((await createBatch(given)).positiveLogprobs).toBe(2);
    expect(warnings).toEqual([
      [
        expect.stringContaining(
          "above 0 at 2 of 3 trained tokens, the largest 0.125, the first at sample 0, position 2",
        ),
        { type: "TokengradWarning", code: "TOKENGRAD_POSITIVE_LOGPROBS" },
      ],
    ]);
  });

  it("are held at 0 on request, counted and not warned of; the same goes for those that come later", async () => {
    const { createBatch, warnings } = await fresh();
    const { logprobs, ...rest } = given;
    const batch = await createBatch({ ...rest, clampLogprobs: true, inputs: { reference: [0.5, 0.5, 0.5] } });
    expect(batch.positiveLogprobs).toBe(0);
    const scored = await batch.with({ logprobs });
    expect(scored.positiveLogprobs).toBe(2);
    expect((await scored.with({ inputs: { reference: [1, 1, 1] } })).positiveLogprobs).toBe(2);
    expect((await scored.with({ logprobs: [-1, -1, -1] })).positiveLogprobs).toBe(0);
    expect(warnings).toEqual([]);
  });

  it("are used as they are by default, and at 0 on request; other inputs are left alone", async () => {
    const loss = defineLoss({
      inputs: { reference: perToken() },
      loss: ({ logprobs, reference }) => logprobs.sum().add(reference.sum()),
    });
    const inputs = { reference: [0.5, 0.5, 0.5] };
    const value = async (options: object) =>
      (await engines.fused.run(loss, await createBatch({ ...given, inputs, ...options }))).loss;
    expect(await value({})).toBe(-1 + 0.03125 + 0.125 + 1.5);
    expect(await value({ clampLogprobs: true })).toBe(-1 + 1.5);
    await expect(value({ clampLogprobs: 1 })).rejects.toMatchObject({
      code: "ERR_INPUT",
      path: "clampLogprobs",
    });
  });
});
