// Who keeps what alive: native objects go when the last one that needs them goes, and not before.
import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { type Batch, createBatch } from "../../src/engine/batch.ts";
import { loadBinding } from "../../src/engine/binding.ts";
import { createEngine } from "../../src/engine/engine.ts";
import { defineLoss, type Loss } from "../../src/loss/define.ts";
import { collectGarbage, settles, useEngine } from "./helpers.ts";

const held = useEngine();
const live = () => loadBinding().liveObjects();
const square = defineLoss({ loss: ({ logprobs }) => logprobs.square().sum() });
/** A number in the program makes its structure a new one. */
const scaled = (factor: number) =>
  defineLoss({ loss: ({ logprobs }) => logprobs.mul(factor).sum() }) as unknown as Loss;
const ones = (tokens: number) =>
  createBatch({ weights: [new Float32Array(tokens).fill(1)], logprobs: [new Float32Array(tokens).fill(-2)] });

describe("programs", () => {
  it("are shared by losses of the same structure, and go with the last of them", async () => {
    const batch = await ones(1);
    await settles(() => live().programs, 0);
    const losses = new Map([1, 2, 3].map((name) => [name, scaled(name < 3 ? 0.5 : 0.25)]));
    const run = async (name: number) => (await held.engine.run(losses.get(name)!, batch)).loss;
    expect(await Promise.all([1, 2, 3].map(run))).toEqual([-1, -1, -0.5]);
    expect(live().programs).toBe(2);
    losses.delete(1);
    losses.delete(3);
    await settles(() => live().programs, 1);
    expect(await run(2)).toBe(-1);
    losses.clear();
    await settles(() => live().programs, 0);
  });

  it("of a thousand losses that came and went are gone", async () => {
    const batch = await ones(1);
    for (let i = 1; i <= 1000; i++) await held.engine.run(scaled(i), batch);
    await settles(() => live().programs, 0);
  });

  it("stay while a run needs them", async () => {
    const batch = await ones(1 << 20);
    const runs = Array.from({ length: 4 }, (_, i) => held.engine.run(scaled(i + 1), batch));
    collectGarbage();
    await setImmediate();
    collectGarbage();
    const results = await Promise.all(runs);
    expect(results.map(({ loss }) => loss)).toEqual([1, 2, 3, 4].map((factor) => -2 * factor * 2 ** 20));
  });
});

describe("runs", () => {
  it("are let go of when they have succeeded, failed or been stopped", async () => {
    const batch = await ones(1 << 18);
    await settles(() => live().runs, 0);
    const root = defineLoss({ loss: ({ logprobs }) => logprobs.sqrt().sum() });
    const controller = new AbortController();
    const { signal } = controller;
    const runs = [
      ...[0, 1, 2].map(() => held.engine.run(square, batch)),
      ...[0, 1].map(() => held.engine.run(root, batch)),
      ...[0, 1].map(() => held.engine.run(square, batch, { signal })),
    ];
    expect(live().runs).toBe(7);
    controller.abort();
    const ends = (await Promise.allSettled(runs)).map(({ status }) => status);
    expect(ends).toEqual([...Array(3).fill("fulfilled"), ...Array(4).fill("rejected")]);
    await settles(() => live().runs, 0);
  });

  it("go with an engine that is disposed of in their midst", async () => {
    const batch = await ones(1 << 18);
    const { engines } = live();
    const engine = await createEngine({ device: "cpu" });
    expect(live().engines).toBe(engines + 1);
    const runs = Array.from({ length: 5 }, () => engine.run(square, batch));
    await setImmediate();
    engine.dispose();
    engine.dispose();
    await Promise.allSettled(runs);
    await settles(() => [live().engines, live().runs], [engines, 0]);
  });
});

describe("engines", () => {
  it("end when they are dropped, at the latest", async () => {
    const { engines } = live();
    for (let i = 0; i < 20; i++) await createEngine({ device: "cpu", threads: 1 });
    await settles(() => live().engines, engines);
  });
});

describe("arrays", () => {
  it("stay while a run reads and writes them, though JavaScript has dropped them", async () => {
    const tokens = 1 << 19;
    const begin = async (value: number) => {
      const row = new Float32Array(tokens).fill(value);
      const batch = await createBatch({ weights: [new Float32Array(tokens).fill(1)], logprobs: [row] });
      row.fill(Number.NaN); // the batch has a copy
      return { run: held.engine.run(square, batch) };
    };
    const runs: Promise<{ loss: number; gradients: { row(sample: number): ArrayLike<number> } }>[] = [];
    for (const value of [1, 2, 3, 4]) {
      runs.push((await begin(value)).run);
      collectGarbage();
      // What was freed by mistake would be handed out again, and written to.
      for (let i = 0; i < 8; i++) new Float32Array(tokens).fill(99);
    }
    for (const [i, { loss, gradients }] of (await Promise.all(runs)).entries()) {
      expect(loss).toBe((i + 1) ** 2 * tokens);
      expect(new Set(Array.from(gradients.row(0)))).toEqual(new Set([2 * (i + 1)]));
    }
  });

  it("of results stay when the engine and the batch are gone", async () => {
    const make = async () => {
      using engine = await createEngine({ device: "cpu" });
      const { gradients } = await engine.run(square, await ones(1 << 16));
      return gradients.row(0);
    };
    const row = await make();
    for (let i = 0; i < 4; i++) {
      collectGarbage();
      await setImmediate();
      new Float32Array(1 << 16).fill(99);
    }
    expect(new Set(row)).toEqual(new Set([-4]));
  });

  it("are on JavaScript's account while they live, and off it afterwards", async () => {
    const MIB = 2 ** 20;
    const batch = await ones(MIB);
    const use = (given: Batch) => held.engine.run(square, given);
    await use(batch);
    const accounted = () => Math.round(process.memoryUsage().arrayBuffers / MIB);
    await settles(() => live().runs, 0);
    collectGarbage();
    const before = accounted();
    let results: unknown[] = [];
    for (let i = 0; i < 8; i++) results.push(await use(batch));
    await settles(accounted, before + 4 * results.length);
    results = [];
    const small = await ones(1);
    for (let i = 0; i < 10_000; i++) await use(small);
    await settles(accounted, before);
  });
});
