// Running losses: results, parameters, dtypes, devices, stopping and disposing.
import { describe, expect, it, vi } from "vitest";
import { createBatch } from "../../src/engine/batch.ts";
import { toFloat32 } from "../../src/engine/bfloat16.ts";
import { createEngine } from "../../src/engine/engine.ts";
import { DeviceError, DisposedError } from "../../src/engine/errors.ts";
import type { EngineOptions } from "../../src/engine/options.ts";
import { AbortError } from "../../src/errors.ts";
import { defineLoss, perToken } from "../../src/loss/define.ts";
import { collectGarbage, useEngine } from "./helpers.ts";

// One thread: runs that are to be stopped must last a while on any machine.
const held = useEngine({ device: "cpu", threads: 1 });
const sum = defineLoss({ loss: ({ logprobs }) => logprobs.sum() });
const root = defineLoss({ loss: ({ logprobs }) => logprobs.sqrt().sum() });
const small = () => createBatch({ weights: [[0, 1], [1]], logprobs: [[0, -1], [-2]] });

/** A loss that takes some hundred milliseconds, and its batch. */
const slow = defineLoss({
  loss: ({ logprobs }) => {
    let x = logprobs;
    for (let i = 0; i < 200; i++) x = x.sigmoid();
    return x.mean();
  },
});
const large = () => {
  const tokens = 1 << 20;
  return createBatch({
    weights: [new Float32Array(tokens).fill(1)],
    logprobs: new Float32Array(tokens).fill(-1),
  });
};

describe("run", () => {
  it("computes regularised SFT as worked out by hand", async () => {
    const loss = defineLoss({
      inputs: { reference: perToken() },
      params: { beta: 0.1 },
      loss: ({ logprobs, reference, beta }) => {
        const nll = logprobs.neg().mean("sample");
        const drift = logprobs.sub(reference).square().mean("sample");
        return { loss: nll.add(drift.mul(beta)).mean(), metrics: { nll: nll.mean(), drift: drift.mean() } };
      },
    });
    const batch = await createBatch({
      weights: [
        [0, 1, 1],
        [0, 0, 0],
      ],
      logprobs: [
        [0, -1, -2],
        [0, 0, 0],
      ],
      inputs: {
        reference: [
          [0, -1, -2],
          [0, 0, 0],
        ],
      },
    });
    const result = await held.engine.run(loss, batch);
    expect(result.loss).toBe(0.75);
    expect(result.metrics).toEqual({ nll: 0.75, drift: 0 });
    expect(result.emptySamples).toBe(1);
    expect([...result.gradients].map((row) => [...row])).toEqual([
      [0, -0.25, -0.25],
      [0, 0, 0],
    ]);
  });

  it("takes parameters without a new compilation", async () => {
    const loss = defineLoss({
      params: { scale: 2, shift: 0 },
      loss: ({ logprobs, scale, shift }) => logprobs.mul(scale).sum().add(shift),
    });
    const batch = await small();
    expect((await held.engine.run(loss, batch)).loss).toBe(-6);
    const { loss: value, gradients } = await held.engine.run(loss, batch, { params: { scale: 5 } });
    expect(value).toBe(-15);
    expect([...gradients.row(0)]).toEqual([0, 5]);
    expect((await held.engine.run(loss, batch, { params: { shift: 0.5 } })).loss).toBe(-5.5);
  });

  it("refuses parameters that are unknown or not finite", async () => {
    const loss = defineLoss({ params: { beta: 1 }, loss: ({ logprobs, beta }) => logprobs.mul(beta).sum() });
    const batch = await small();
    const refused = (params: object) => expect(held.engine.run(loss, batch, { params })).rejects;
    await refused({ beat: 1 }).toMatchObject({
      path: "params.beat",
      message: expect.stringContaining("did you mean beta?"),
    });
    for (const beta of [Number.NaN, Infinity, "1", null, 1n]) {
      await refused({ beta }).toMatchObject({ code: "ERR_INPUT", path: "params.beta" });
    }
  });

  it("refuses arguments of the wrong type", async () => {
    const batch = await small();
    const run = held.engine.run.bind(held.engine) as (...args: unknown[]) => Promise<unknown>;
    for (const loss of [undefined, {}, () => 1]) {
      await expect(run(loss, batch)).rejects.toMatchObject({ code: "ERR_INPUT", path: "loss" });
    }
    for (const wrong of [undefined, {}, []]) {
      await expect(run(sum, wrong)).rejects.toMatchObject({ code: "ERR_INPUT", path: "batch" });
    }
    await expect(run(sum, batch, { dtype: "float16" })).rejects.toMatchObject({ path: "dtype" });
    await expect(run(sum, batch, { signal: {} })).rejects.toMatchObject({ path: "signal" });
    await expect(run(sum, batch, { dtyp: "float32" })).rejects.toThrow("did you mean dtype?");
  });

  it("answers many calls at once in their order", async () => {
    const loss = defineLoss({ params: { n: 0 }, loss: ({ logprobs, n }) => logprobs.sum().mul(n) });
    const batch = await small();
    const finished: number[] = [];
    await Promise.all(
      Array.from({ length: 100 }, async (_, n) => {
        expect((await held.engine.run(loss, batch, { params: { n } })).loss).toBe(-3 * n);
        finished.push(n);
      }),
    );
    expect(finished).toEqual(Array.from({ length: 100 }, (_, n) => n));
  });

  it("keeps what it needs when the caller drops everything at once", async () => {
    const result = held.engine.run(slow, await large());
    collectGarbage();
    const { gradients } = await result;
    expect(gradients.row(0).every((x) => x === gradients.row(0)[0])).toBe(true);
  });
});

describe("dtypes", () => {
  const scaled = defineLoss({
    inputs: { factors: perToken() },
    loss: ({ logprobs, factors }) => logprobs.mul(factors).sum(),
  });
  const factors = [1.00390625, 1.01171875, 0.1, -0.0425557, 3.3895314e38, 1e-40, -0];
  const batch = (precision: "float32" | "float64", given = factors) =>
    createBatch({
      weights: [given.map(() => 1)],
      logprobs: [given.map(() => 0)],
      inputs: { factors: given },
      precision,
    });

  it("float32 and float64 are exact", async () => {
    const narrow = await held.engine.run(scaled, await batch("float32"));
    expect(narrow.gradients.row(0)).toEqual(Float32Array.from(factors));
    const wide = await held.engine.run(scaled, await batch("float64"), { dtype: "float64" });
    expect(wide.gradients.row(0)).toEqual(Float64Array.from(factors));
    const rounded = await held.engine.run(scaled, await batch("float64"));
    expect(rounded.gradients.row(0)).toEqual(Float32Array.from(factors));
  });

  it("bfloat16 is rounded to nearest even", async () => {
    for (const precision of ["float32", "float64"] as const) {
      const { gradients } = await held.engine.run(scaled, await batch(precision), { dtype: "bfloat16" });
      const bits = gradients.row(0);
      expect(bits).toBeInstanceOf(Uint16Array);
      expect([...bits]).toEqual([0x3f80, 0x3f82, 0x3dcd, 0xbd2e, 0x7f7f, 0x0001, 0x8000]);
      expect([...toFloat32(bits)].slice(0, 4)).toEqual([1, 1.015625, 0.10009765625, -0.04248046875]);
    }
  });

  it("what overflows the dtype is refused", async () => {
    const error = {
      code: "ERR_NON_FINITE",
      sample: 0,
      position: 1,
      value: Math.fround(3.4e38),
      op: undefined,
    };
    const large = await batch("float32", [1, 3.4e38]);
    await expect(held.engine.run(scaled, large, { dtype: "bfloat16" })).rejects.toMatchObject(error);
    await held.engine.run(scaled, large, { dtype: "float32" });
    const huge = await batch("float64", [1, 1e300]);
    await expect(held.engine.run(scaled, huge)).rejects.toMatchObject({ ...error, value: 1e300 });
  });

  it("rows are views of one buffer that belongs to the caller", async () => {
    const { gradients } = await held.engine.run(sum, await small());
    expect(gradients).toMatchObject({ rows: 2, dtype: "float32" });
    expect(gradients.buffer.byteLength).toBe(3 * 4);
    expect(gradients.row(1).buffer).toBe(gradients.buffer);
    expect(() => gradients.row(2)).toThrow("row: expected an index from 0 to 1");
    expect(() => gradients.row(-1)).toThrow("row: expected an index from 0 to 1");
    expect(() => gradients.row(0.5)).toThrow("row: expected an index from 0 to 1");
  });
});

describe("stopping", () => {
  it("refuses a signal that has fired", async () => {
    const reason = new Error("no longer wanted");
    const error = await held.engine
      .run(sum, await small(), { signal: AbortSignal.abort(reason) })
      .catch((error: unknown) => error);
    expect(error).toBeInstanceOf(AbortError);
    expect(error).toMatchObject({ code: "ERR_ABORTED", name: "AbortError", cause: reason });
  });

  it("rejects at once, while the run waits and while it runs, and the engine goes on", async () => {
    const batch = await large();
    for (const wait of [false, true]) {
      const before = wait ? held.engine.run(slow, batch) : Promise.resolve();
      const controller = new AbortController();
      const stopped = held.engine.run(slow, batch, { signal: controller.signal });
      await new Promise((resolve) => setTimeout(resolve, 20));
      const start = performance.now();
      controller.abort();
      await expect(stopped).rejects.toBeInstanceOf(AbortError);
      expect(performance.now() - start).toBeLessThan(100);
      const next = held.engine.run(sum, await small());
      expect((await next).loss).toBe(-3);
      await before;
    }
  });

  it("lets go of the thread soon after", async () => {
    const batch = await large();
    const controller = new AbortController();
    const stopped = held.engine.run(slow, batch, { signal: controller.signal });
    stopped.catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 20));
    controller.abort();
    const start = performance.now();
    await held.engine.run(sum, await small());
    expect(performance.now() - start).toBeLessThan(100);
  });

  it("leaves no listener behind", async () => {
    const controller = new AbortController();
    const { signal } = controller;
    const added = vi.spyOn(signal, "addEventListener");
    const removed = vi.spyOn(signal, "removeEventListener");
    await held.engine.run(sum, await small(), { signal });
    await expect(held.engine.run(root, await small(), { signal })).rejects.toThrow();
    expect(added).toHaveBeenCalledTimes(2);
    expect(removed.mock.calls).toEqual(added.mock.calls);
  });
});

describe("dispose", () => {
  it("refuses later runs, and is safe to call twice", async () => {
    const engine = await createEngine({ device: "cpu" });
    engine.dispose();
    engine.dispose();
    await expect(engine.run(sum, await small())).rejects.toMatchObject({
      name: "DisposedError",
      code: "ERR_DISPOSED",
      message: "the engine is disposed",
    });
  });

  it("rejects what runs and what waits, at once", async () => {
    const engine = await createEngine({ device: "cpu" });
    const batch = await large();
    const runs = [engine.run(slow, batch), engine.run(slow, batch), engine.run(sum, batch)];
    const outcomes = Promise.allSettled(runs);
    await new Promise((resolve) => setTimeout(resolve, 20));
    const start = performance.now();
    engine.dispose();
    for (const outcome of await outcomes) {
      expect(outcome).toMatchObject({ status: "rejected", reason: expect.any(DisposedError) });
    }
    expect(performance.now() - start).toBeLessThan(100);
  });

  it("works by `using`", async () => {
    let kept: Awaited<ReturnType<typeof createEngine>>;
    {
      using engine = await createEngine({ device: "cpu" });
      kept = engine;
    }
    await expect(kept.run(sum, await small())).rejects.toBeInstanceOf(DisposedError);
  });
});

describe("createEngine", () => {
  it("tells what it found", () => {
    expect(held.engine.info).toMatchObject({
      device: "cpu",
      requestedDevice: "cpu",
      libtorch: expect.stringMatching(/^\d+\.\d+\.\d+$/),
      executor: "fused",
      fallbacks: [],
    });
    expect(held.engine.info.threads).toBeGreaterThanOrEqual(1);
    expect(held.engine.info.fallbackReason).toBeUndefined();
  });

  it("honours the number of threads", async () => {
    using engine = await createEngine({ device: "cpu", threads: 3 });
    expect(engine.info.threads).toBe(3);
  });

  it("refuses wrong options", async () => {
    const refused = (options: object) => expect(createEngine(options as EngineOptions)).rejects;
    for (const device of ["gpu", "cuda:", "cuda:x", "", 0, null]) {
      await refused({ device }).toMatchObject({ code: "ERR_INPUT", path: "device" });
    }
    for (const threads of [0, -1, 1.5, 1e9, "2", Number.NaN]) {
      await refused({ threads }).toMatchObject({ code: "ERR_INPUT", path: "threads" });
    }
    await refused({ thread: 1 }).toThrow("did you mean threads?");
  });

  it("falls back with a reason, and refuses a GPU by name with a typed one", async () => {
    using engine = await createEngine({ device: "auto" });
    const { cuda, device, fallbackReason, requestedDevice } = engine.info;
    expect(requestedDevice).toBe("auto");
    if (cuda.state === "ready") {
      expect(device).toBe("cuda:0");
      await expect(createEngine({ device: `cuda:${cuda.devices}` })).rejects.toMatchObject({
        reason: "no-device",
      });
      return;
    }
    expect(device).toBe("cpu");
    expect(fallbackReason).toBe(cuda.reason);
    expect(fallbackReason).toMatch(/\w/);
    const error = await createEngine({ device: "cuda" }).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(DeviceError);
    expect(error).toMatchObject({ code: "ERR_DEVICE", reason: cuda.state });
  });
});

describe("a result written into an earlier one", () => {
  const loss = defineLoss({ loss: ({ logprobs }) => logprobs.square().sum() });
  const batchOf = (x: number) => createBatch({ weights: [[1, 0], [1]], logprobs: [[x, 9], [2 * x]] });

  it("takes over its memory", async () => {
    const first = await held.engine.run(loss, await batchOf(1));
    expect([...first.gradients].map((row) => [...row])).toEqual([[2, 0], [4]]);
    const second = await held.engine.run(loss, await batchOf(3), { into: first.gradients });
    expect([...second.gradients].map((row) => [...row])).toEqual([[6, 0], [12]]);
    // Nobody can read or move what is written to.
    expect(first.gradients.buffer.byteLength).toBe(0);
  });

  it("is refused where rows, dtype or another run do not allow it", async () => {
    const { gradients } = await held.engine.run(loss, await batchOf(1));
    const refusal = { code: "ERR_INPUT", path: "into" };
    const other = await createBatch({ weights: [[1], [1, 1]], logprobs: [[1], [1, 1]] });
    await expect(held.engine.run(loss, other, { into: gradients })).rejects.toMatchObject(refusal);
    const wrong = { into: gradients as never, dtype: "bfloat16" } as const;
    await expect(held.engine.run(loss, await batchOf(1), wrong)).rejects.toMatchObject(refusal);
    const none = { into: new Float32Array(3) as never };
    await expect(held.engine.run(loss, await batchOf(1), none)).rejects.toMatchObject(refusal);

    // What is refused for another reason takes nothing.
    const needy = defineLoss({
      inputs: { old: perToken() },
      loss: ({ logprobs, old }) => logprobs.sub(old).sum(),
    });
    await expect(held.engine.run(needy, await batchOf(1), { into: gradients })).rejects.toMatchObject({
      path: "inputs.old",
    });
    expect([...gradients.row(0)]).toEqual([2, 0]);

    const batch = await batchOf(1);
    const running = held.engine.run(loss, batch, { into: gradients });
    await expect(held.engine.run(loss, batch, { into: gradients })).rejects.toMatchObject(refusal);
    expect([...(await running).gradients].map((row) => [...row])).toEqual([[2, 0], [4]]);
  });
});
