// Which executor runs what, and how often programs are compiled.
import { afterEach, describe, expect, it, vi } from "vitest";
import { createBatch } from "../../src/engine/batch.ts";
import { loadBinding } from "../../src/engine/binding.ts";
import { createEngine } from "../../src/engine/engine.ts";
import { defineLoss } from "../../src/loss/define.ts";
import { seededRandom } from "../helpers.ts";
import { useEngines } from "./ops/batch.ts";

const engines = useEngines();
afterEach(() => vi.restoreAllMocks());

const small = (precision: "float32" | "float64" = "float32") =>
  createBatch({ weights: [[1, 1]], logprobs: [[-1, -2]], precision });
const sum = () => defineLoss({ name: "sum", loss: ({ logprobs }) => logprobs.exp().sum() });

describe("the executor", () => {
  it("is fused on a CPU for float32, torch for float64, unless another is asked for", async () => {
    using engine = await createEngine({ device: "cpu" });
    expect(engine.info).toMatchObject({ executor: "fused", fallbacks: [] });
    expect((await engine.run(sum(), await small())).executor).toBe("fused");
    expect((await engine.run(sum(), await small("float64"))).executor).toBe("torch");
    expect((await engines.torch.run(sum(), await small())).executor).toBe("torch");
    expect((await engines.autograd.run(sum(), await small("float64"))).executor).toBe("autograd");
    expect(engine.info.fallbacks).toEqual([]);
  });

  it("is torch, and the info says why, where fused lacks an op", async () => {
    using engine = await createEngine({ device: "cpu" });
    vi.spyOn(loadBinding(), "lacking").mockReturnValue(["erf"]);
    const loss = defineLoss({ name: "unheard of", loss: ({ logprobs }) => logprobs.erf().add(0.125).sum() });
    expect((await engine.run(loss, await small())).executor).toBe("torch");
    expect((await engine.run(loss, await small())).executor).toBe("torch");
    expect(engine.info.fallbacks).toEqual([{ loss: "unheard of", ops: ["erf"] }]);
    await expect(engines.fused.run(loss, await small())).rejects.toMatchObject({
      code: "ERR_INPUT",
      message: expect.stringContaining("unheard of: the fused executor lacks erf"),
    });
  });

  it("fused refuses what it cannot compute", async () => {
    await expect(engines.fused.run(sum(), await small("float64"))).rejects.toMatchObject({
      code: "ERR_INPUT",
      path: "batch.precision",
    });
    await expect(createEngine({ device: "cuda", executor: "fused" })).rejects.toMatchObject({
      path: "executor",
    });
    const wrong = { executor: "jit" as "fused" };
    await expect(createEngine(wrong)).rejects.toMatchObject({ path: "executor" });
  });
});

describe("programs", () => {
  it("are compiled once for all losses of the same structure, runs and parameters", async () => {
    const compile = vi.spyOn(loadBinding(), "compile");
    const make = (factor: number) =>
      defineLoss({
        params: { beta: 0.5 },
        loss: ({ logprobs, beta }) => logprobs.mul(beta).sub(factor).square().mean("sample").mean(),
      });
    const batch = await small();
    for (const beta of [1, 2, 3]) await engines.fused.run(make(0.75), batch, { params: { beta } });
    await engines.torch.run(make(0.75), batch);
    expect(compile).toHaveBeenCalledTimes(1);
    await engines.fused.run(make(0.25), batch);
    expect(compile).toHaveBeenCalledTimes(2);
  });

  it("with constants that have no JSON are told apart", async () => {
    const bounded = (upper: number) =>
      defineLoss({ loss: ({ logprobs }) => logprobs.clamp(-Infinity, upper).sum() });
    const batch = await small();
    expect((await engines.fused.run(bounded(Infinity), batch)).loss).toBe(-3);
    expect(await engines.fused.run(bounded(-Infinity), batch).catch((error) => error.code)).toBe(
      "ERR_NON_FINITE",
    );
  });
});

describe("the fused executor", () => {
  const loss = defineLoss({
    loss: ({ logprobs }) => {
      const centred = logprobs.sub(logprobs.mean("sample")).exp();
      return centred.logsumexp("group").add(centred.square().sum("group")).tanh().mean();
    },
  });
  const rows = (lengths: readonly number[], seed: number) => {
    const random = seededRandom(seed);
    return lengths.map((length) => Float32Array.from({ length }, () => -3 * random()));
  };
  const batchOf = (logprobs: readonly Float32Array[]) =>
    createBatch({ weights: logprobs.map((row) => new Float32Array(row.length).fill(1)), logprobs });

  it("gives the same bits on any number of threads", async () => {
    const batch = await batchOf(rows([1, 70_000, 3, 512, 513, 16_385, 40_000], 5));
    const results = [];
    for (const threads of [1, 2, 3, 7]) {
      using engine = await createEngine({ device: "cpu", executor: "fused", threads });
      const { loss: value, gradients } = await engine.run(loss, batch);
      results.push([value, Buffer.from(gradients.buffer).toString("base64")]);
    }
    for (const result of results) expect(result).toEqual(results[0]);
  });

  it("gives a sample the same bits whatever other samples there are", async () => {
    const perSample = defineLoss({
      loss: ({ logprobs }) => logprobs.sub(logprobs.mean("sample")).exp().logsumexp("sample").sum(),
    });
    const logprobs = rows([700, 33, 20_000, 1], 6);
    const together = await engines.fused.run(perSample, await batchOf(logprobs));
    for (const [i, row] of logprobs.entries()) {
      const alone = await engines.fused.run(perSample, await batchOf([row]));
      expect(together.gradients.row(i)).toEqual(alone.gradients.row(0));
    }
  });
});
