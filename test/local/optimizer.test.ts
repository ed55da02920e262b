// AdamW against a plain implementation of its formulas, and what training and saved states do.
import { expect, test } from "vitest";
import type { NativeAdam } from "../../src/local/binding.ts";
import { relativeError } from "../helpers.ts";
import {
  ADAM,
  batchOf,
  CROSS_ENTROPY,
  gradientsOf,
  numbers,
  parameters,
  sessionWith,
  TINY,
  trainer,
} from "./native.ts";

test("several steps equal AdamW written out", async () => {
  const adam: NativeAdam = {
    learningRate: 3e-3,
    beta1: 0.8,
    beta2: 0.9,
    eps: 1e-6,
    weightDecay: 0.3,
    gradClipNorm: 0.5,
  };
  // Decay shrinks what has two dimensions and nothing else.
  const decays = trainer
    .parameters(TINY)
    .flatMap(({ shape }) => new Array<boolean>(shape.reduce((a, b) => a * b)).fill(shape.length === 2));
  const session = await trainer.createSession(TINY);
  let expected = await parameters(session);
  const [m, v] = [new Float64Array(expected.length), new Float64Array(expected.length)];
  let clippings = 0;
  for (let step = 1; step <= 4; step++) {
    const batch = batchOf([6, 20], step);
    const probe = await sessionWith(await parameters(session));
    await probe.forwardBackward(batch, CROSS_ENTROPY, {}, false);
    const gradients = await gradientsOf(probe);
    const norm = Math.sqrt(gradients.reduce((sum, g) => sum + g * g, 0));
    const scale = Math.min(1, 0.5 / norm);
    clippings += Number(scale < 1);
    expected = expected.map((p, i) => {
      const g = gradients[i]! * scale;
      m[i] = 0.8 * m[i]! + 0.2 * g;
      v[i] = 0.9 * v[i]! + 0.1 * g * g;
      const decayed = decays[i] ? p * (1 - 3e-3 * 0.3) : p;
      const update = m[i]! / (1 - 0.8 ** step) / (Math.sqrt(v[i]! / (1 - 0.9 ** step)) + 1e-6);
      return decayed - 3e-3 * update;
    });
    await session.forwardBackward(batch, CROSS_ENTROPY, {}, false);
    expect(await session.optimStep(adam)).toBe(step);
    expect(relativeError(await parameters(session), expected)).toBeLessThan(1e-10);
  }
  expect(clippings).toBe(4);
});

test("training lowers the loss", async () => {
  const session = await trainer.createSession({ ...TINY, precision: "float32" });
  const batch = batchOf([24, 30, 12]);
  const first = await session.forwardBackward(batch, CROSS_ENTROPY, {}, false);
  for (let step = 0; step < 30; step++) {
    await session.optimStep(ADAM);
    await session.forwardBackward(batch, CROSS_ENTROPY, {}, false);
  }
  const last = await session.forwardBackward(batch, CROSS_ENTROPY, {}, true);
  expect(last.loss).toBeLessThan(first.loss / 4);
});

test("a restored state goes on bit by bit, and without its moments it does not", async () => {
  const config = { ...TINY, precision: "float32" } as const;
  const train = async (session: Awaited<ReturnType<typeof trainer.createSession>>, from: number) => {
    for (let step = from; step < from + 3; step++) {
      await session.forwardBackward(batchOf([9, 31, 14], step), CROSS_ENTROPY, {}, false);
      await session.optimStep(ADAM);
    }
  };
  const original = await trainer.createSession(config);
  await train(original, 0);
  const saved = await original.save(true);
  expect(saved.step).toBe(3);
  await train(original, 3);

  const resumed = await trainer.createSession(config, saved);
  await train(resumed, 3);
  const fresh = await trainer.createSession(config, { step: 0, parts: saved.parts.slice(0, 1) });
  await train(fresh, 3);
  const [expected, same, other] = await Promise.all([original, resumed, fresh].map((s) => s.save(true)));
  expect(same).toEqual(expected);
  expect(other!.parts[0]).not.toEqual(expected!.parts[0]);
});

test("equal seeds give equal weights, other seeds others", async () => {
  const weights = async (seed: bigint) => parameters(await trainer.createSession({ ...TINY, seed }));
  expect(await weights(1n)).toEqual(await weights(1n));
  expect(await weights(1n)).not.toEqual(await weights(2n));
});

test("gradients that overflow are discarded with an error, and the session goes on", async () => {
  const config = { ...TINY, precision: "float32" } as const;
  const session = await trainer.createSession(config);
  const batch = batchOf([20]);
  const before = await session.save(true);
  const huge = batch.weights.map((weight) => weight * 3e38);
  await expect(session.customForwardBackward(batch, huge)).rejects.toMatchObject({ code: "ERR_NON_FINITE" });
  await session.customForwardBackward(batch, batch.weights);
  await session.optimStep({ ...ADAM, learningRate: 0 });
  expect(numbers((await session.save(false)).parts[0]!, "float32")).toEqual(
    numbers(before.parts[0]!, "float32"),
  );
});

test("bad states, batches and options are refused and nothing crashes", async () => {
  const session = await trainer.createSession(TINY);
  const { parts } = await session.save(false);
  const broken = numbers(parts[0]!);
  broken[5] = Number.NaN;
  const bad: [() => unknown, RegExp][] = [
    [() => trainer.createSession(TINY, { step: 1, parts: [] }), /expected weights/],
    [() => trainer.createSession(TINY, { step: -1, parts }), /step: expected at least 0/],
    [() => trainer.createSession(TINY, { step: 1, parts: [parts[0]!.subarray(8)] }), /expected \d+ numbers/],
    [() => sessionWith(broken), /finite numbers/],
    [() => trainer.createSession({ ...TINY, heads: 3 }), /width/],
    [() => trainer.createSession({ ...TINY, layers: 1.5 }), /layers/],
    [() => trainer.createSession({ ...TINY, precision: "bfloat16" as "float32" }), /precision/],
    [() => trainer.createSession(null as never), /config: expected an object/],
    [
      () =>
        session.forwardBackward({ ...batchOf([4]), offsets: Int32Array.of(0, 9) }, CROSS_ENTROPY, {}, true),
      /do not match/,
    ],
    [
      () =>
        session.forwardBackward(
          { ...batchOf([4, 4]), offsets: Int32Array.of(0, 9, 8) },
          CROSS_ENTROPY,
          {},
          true,
        ),
      /do not match/,
    ],
    [
      () => session.forwardBackward(batchOf([33]), CROSS_ENTROPY, {}, true),
      /sample 0: expected 1 to 32 tokens/,
    ],
    [() => session.forwardBackward(batchOf([9], 1, 4000), CROSS_ENTROPY, {}, true), /token below 40/],
    [() => session.forwardBackward({} as never, CROSS_ENTROPY, {}, true), /tokens: expected an Int32Array/],
    [
      () => session.forwardBackward(batchOf([4]), { ...CROSS_ENTROPY, type: "x" as never }, {}, true),
      /type: unknown/,
    ],
    [
      () => session.forwardBackward(batchOf([4]), { ...CROSS_ENTROPY, type: "ppo" }, {}, true),
      /logprobs: expected/,
    ],
    [() => session.customForwardBackward(batchOf([4]), new Float64Array(3)), /gradients: expected/],
    [
      () => session.customForwardBackward(batchOf([4]), [1, 2] as never),
      /gradients: expected a Float64Array/,
    ],
    [() => session.optimStep(ADAM), /no gradients/],
    [() => trainer.setThreads(0), /threads/],
  ];
  for (const [act, message] of bad) {
    const outcome = Promise.resolve().then(act);
    await expect(outcome).rejects.toMatchObject({
      code: "ERR_INPUT",
      message: expect.stringMatching(message),
    });
  }
  session.dispose();
  session.dispose();
  await expect((async () => session.publish())()).rejects.toMatchObject({ code: "ERR_DISPOSED" });
});
