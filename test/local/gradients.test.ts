// The trainer's gradients: through the custom pass, against central differences, and of every built-in loss.
import { describe, expect, test } from "vitest";
import type { NativeLoss, NativeLossInputs } from "../../src/local/binding.ts";
import { relativeError, seededRandom } from "../helpers.ts";
import { batchOf, CROSS_ENTROPY, gradientsOf, parameters, sessionWith, TINY, trainer } from "./native.ts";

const batch = batchOf([5, 24, 9, 24, 1]);
const positions = batch.tokens.length;

test("a custom pass gives the parameters the central differences of what its gradients weigh", async () => {
  const random = seededRandom(3);
  const weights = Float64Array.from({ length: positions }, () => random() - 0.5);
  const session = await trainer.createSession(TINY);
  const values = await parameters(session);
  await session.customForwardBackward(batch, weights);
  const gradients = await gradientsOf(session);

  const weighed = async (at: Float64Array) => {
    const { logprobs } = await (await sessionWith(at)).forwardBackward(batch, CROSS_ENTROPY, {}, true);
    return logprobs.reduce((sum, logprob, i) => sum + logprob * weights[i]!, 0);
  };
  let offset = 0;
  for (const { name, shape } of trainer.parameters(TINY)) {
    const size = shape.reduce((a, b) => a * b);
    // The place of the largest gradient says most; a random one would often be near 0.
    const own = gradients.subarray(offset, offset + size);
    const index = offset + own.reduce((best, g, i) => (Math.abs(g) > Math.abs(own[best]!) ? i : best), 0);
    const [up, down] = [values.slice(), values.slice()];
    up[index]! += 1e-5;
    down[index]! -= 1e-5;
    const slope = ((await weighed(up)) - (await weighed(down))) / 2e-5;
    expect(Math.abs(gradients[index]!), name).toBeGreaterThan(1e-3);
    expect(gradients[index]! / slope, name).toBeCloseTo(1, 6);
    offset += size;
  }
  expect(offset).toBe(values.length);
});

test("gradients add up over passes, and those at zero weights are ignored", async () => {
  const session = await trainer.createSession(TINY);
  const gradients = batch.weights.map((weight) => (weight === 0 ? 100 : -1));
  await session.customForwardBackward(batch, gradients);
  await session.customForwardBackward(batch, gradients);
  const twice = await gradientsOf(session);
  const clean = await trainer.createSession(TINY);
  await clean.customForwardBackward(
    batch,
    batch.weights.map((weight) => -weight),
  );
  const once = await gradientsOf(clean);
  expect(
    relativeError(
      twice.map((g) => g / 2),
      once,
    ),
  ).toBeLessThan(1e-12);
});

test("what stands beside a sample in the batch has no influence on it", async () => {
  const session = await trainer.createSession(TINY);
  const together = await session.forwardBackward(batch, CROSS_ENTROPY, {}, true);
  for (const [i, begin] of batch.offsets.slice(0, -1).entries()) {
    const end = batch.offsets[i + 1]!;
    const alone = {
      tokens: batch.tokens.slice(begin, end),
      targets: batch.targets.slice(begin, end),
      weights: batch.weights.slice(begin, end),
      offsets: Int32Array.of(0, end - begin),
    };
    const { logprobs } = await session.forwardBackward(alone, CROSS_ENTROPY, {}, true);
    for (const [t, logprob] of logprobs.entries()) {
      expect(together.logprobs[begin + t]).toBeCloseTo(logprob, 12);
      expect(logprob === 0, `sample ${i}, position ${t}`).toBe(batch.weights[begin + t] === 0);
    }
  }
});

test("tokens that come later have no influence", async () => {
  const session = await trainer.createSession(TINY);
  const changed = { ...batch, tokens: batch.tokens.slice() };
  const end = batch.offsets[2]!;
  changed.tokens[end - 1] = (changed.tokens[end - 1]! + 1) % TINY.vocabulary;
  const before = await session.forwardBackward(batch, CROSS_ENTROPY, {}, true);
  const after = await session.forwardBackward(changed, CROSS_ENTROPY, {}, true);
  expect(after.logprobs.slice(0, end - 1)).toEqual(before.logprobs.slice(0, end - 1));
  expect(after.logprobs[end - 1]).not.toBe(before.logprobs[end - 1]);
});

/** The losses again, term by term, as formulas whose slopes are taken numerically. */
type Formula = (l: number, o: number, a: number, f: number, r: number) => number;
const clip = (r: number, low: number, high: number) => Math.min(Math.max(r, low), high);
const clipped: Formula = (_, __, a, ___, r) => -Math.min(r * a, clip(r, 0.8, 1.2) * a);
const k3 = (l: number, f: number) => Math.exp(f - l) - (f - l) - 1;
const base = {
  clipLow: 0.8,
  clipHigh: 1.2,
  beta: 0,
  aggregation: "fixed_horizon",
  sequenceRatio: false,
} as const;

const cases: readonly { name: string; loss: NativeLoss; term: Formula; frozen?: Formula }[] = [
  {
    name: "importance sampling",
    loss: { ...base, type: "importance_sampling" },
    term: (_, __, a, ___, r) => -r * a,
  },
  { name: "ppo", loss: { ...base, type: "ppo" }, term: clipped },
  {
    name: "cispo",
    loss: { ...base, type: "cispo", clipLow: 0.5, clipHigh: 1.1 },
    term: (l, o, a) => -clip(Math.exp(l - o), 0.5, 1.1) * a * l,
    // Only l moves: the ratio is a constant coefficient.
    frozen: (l, _, a, __, r) => -clip(r, 0.5, 1.1) * a * l,
  },
  {
    name: "dro",
    loss: { ...base, type: "dro", beta: 0.3 },
    term: (l, o, a) => -a * l + 0.15 * (l - o) ** 2,
  },
  {
    name: "grpo",
    loss: { ...base, type: "grpo", beta: 0.1 },
    term: (l, o, a, f, r) => clipped(l, o, a, f, r) + 0.1 * k3(l, f),
  },
  { name: "grpo, token mean", loss: { ...base, type: "grpo", aggregation: "token_mean" }, term: clipped },
  {
    name: "grpo, sequence mean",
    loss: { ...base, type: "grpo", aggregation: "sequence_mean" },
    term: clipped,
  },
];

describe("built-in losses have the value and the slopes of their formulas", () => {
  const trained = batch.weights.map((weight) => (weight === 0 ? 0 : 1));
  const samples = batch.offsets.length - 1;
  const sampleOf = (i: number) => batch.offsets.findLastIndex((begin) => begin <= i);
  const count = (values: Float64Array) => values.reduce((a, b) => a + b, 0);

  function divisor(loss: NativeLoss, i: number): number {
    if (loss.type !== "grpo") return 1;
    if (loss.aggregation === "fixed_horizon") return samples * TINY.context;
    if (loss.aggregation === "token_mean") return count(trained);
    const [begin, end] = batch.offsets.subarray(sampleOf(i));
    return samples * count(trained.slice(begin, end));
  }

  async function inputs(): Promise<Required<NativeLossInputs> & { logprobs: Float64Array }> {
    const random = seededRandom(11);
    const session = await trainer.createSession(TINY);
    const { logprobs } = await session.forwardBackward(batch, CROSS_ENTROPY, {}, true);
    const near = () => logprobs.map((l) => l + random() - 0.5);
    // Some advantages are 0, whose terms must vanish.
    const advantages = logprobs.map(() => Math.round(random() * 4 - 2));
    return { logprobs, sampled: near(), reference: near(), advantages };
  }

  for (const { name, loss, term, frozen = term } of cases) {
    test(name, async () => {
      const { logprobs: l, ...given } = await inputs();
      const { sampled: o, advantages: a, reference: f } = given;
      const session = await trainer.createSession(TINY);
      const { loss: value, metrics } = await session.forwardBackward(batch, loss, given, false);
      const actual = await gradientsOf(session);

      const at = (formula: Formula, i: number, x: number) =>
        formula(
          x,
          o[i]!,
          a[i]!,
          f[i]!,
          formula === term || name !== "cispo" ? Math.exp(x - o[i]!) : Math.exp(l[i]! - o[i]!),
        );
      let total = 0;
      const slopes = trained.map((on, i) => {
        if (on === 0) return 0;
        total += at(term, i, l[i]!) / divisor(loss, i);
        return (at(frozen, i, l[i]! + 1e-6) - at(frozen, i, l[i]! - 1e-6)) / 2e-6 / divisor(loss, i);
      });
      expect(value).toBeCloseTo(total, 9);
      const custom = await trainer.createSession(TINY);
      await custom.customForwardBackward(batch, slopes);
      expect(relativeError(actual, await gradientsOf(custom))).toBeLessThan(1e-7);
      expect(metrics["loss/tokens"]).toBe(count(trained));
      const ratios = trained.map((on, i) => on * Math.exp(l[i]! - o[i]!));
      expect(metrics["loss/ratio/mean"]).toBeCloseTo(count(ratios) / count(trained), 9);
    });
  }

  test("grpo, sequence ratio: the value of the sample's ratio, the slope of a token's", async () => {
    const { logprobs: l, ...given } = await inputs();
    const { sampled: o, advantages: a } = given;
    const loss = { ...base, type: "grpo", aggregation: "token_mean", sequenceRatio: true } as const;
    const session = await trainer.createSession(TINY);
    const { loss: value } = await session.forwardBackward(batch, loss, given, false);
    const actual = await gradientsOf(session);
    const ratio = (i: number) => {
      const [begin, end] = batch.offsets.subarray(sampleOf(i)) as unknown as [number, number];
      let sum = 0;
      for (let t = begin; t < end; t++) sum += trained[t]! * (l[t]! - o[t]!);
      return Math.exp(sum / count(trained.slice(begin, end)));
    };
    let total = 0;
    const slopes = trained.map((on, i) => {
      if (on === 0) return 0;
      const [r, bounded] = [ratio(i), clip(ratio(i), 0.8, 1.2)];
      total -= Math.min(r * a[i]!, bounded * a[i]!) / count(trained);
      return r * a[i]! <= bounded * a[i]! ? (-r * a[i]!) / count(trained) : 0;
    });
    expect(value).toBeCloseTo(total, 9);
    const custom = await trainer.createSession(TINY);
    await custom.customForwardBackward(batch, slopes);
    expect(relativeError(actual, await gradientsOf(custom))).toBeLessThan(1e-9);
  });

  test("cross-entropy honours fractional weights", async () => {
    const halved = { ...batch, weights: batch.weights.map((weight) => weight / 2) };
    const [whole, half] = [await trainer.createSession(TINY), await trainer.createSession(TINY)];
    const first = await whole.forwardBackward(batch, CROSS_ENTROPY, {}, false);
    const second = await half.forwardBackward(halved, CROSS_ENTROPY, {}, false);
    expect(second.loss).toBeCloseTo(first.loss / 2, 9);
    const doubled = (await gradientsOf(half)).map((g) => 2 * g);
    expect(relativeError(doubled, await gradientsOf(whole))).toBeLessThan(1e-12);
  });
});

describe("a pass that fails leaves nothing behind", () => {
  test("an overflowed ratio against the advantage is reported with its place", async () => {
    const session = await trainer.createSession(TINY);
    const sampled = new Float64Array(positions).fill(-1e4);
    const advantages = new Float64Array(positions).fill(-1);
    const loss = { ...base, type: "ppo" } as const;
    const pass = session.forwardBackward(batch, loss, { sampled, advantages }, false);
    await expect(pass).rejects.toMatchObject({
      code: "ERR_NON_FINITE",
      message: expect.stringMatching(/^sample \d, position \d+: the gradient is/),
    });
    await expect(
      session.optimStep({ learningRate: 1, beta1: 0, beta2: 0, eps: 1, weightDecay: 0, gradClipNorm: 0 }),
    ).rejects.toMatchObject({ code: "ERR_INPUT", message: expect.stringContaining("no gradients") });
  });

  test("the same overflow with or without advantage is bounded by the clip, and never NaN", async () => {
    const session = await trainer.createSession(TINY);
    const sampled = new Float64Array(positions).fill(-1e4);
    const loss = { ...base, type: "ppo" } as const;
    const trainedTokens = batch.weights.filter((weight) => weight !== 0).length;
    for (const advantage of [0, 1]) {
      const advantages = new Float64Array(positions).fill(advantage);
      const pass = await session.forwardBackward(batch, loss, { sampled, advantages }, false);
      expect(pass.loss).toBeCloseTo(-1.2 * advantage * trainedTokens, 9);
    }
    expect((await gradientsOf(session)).every((g) => g === 0)).toBe(true);
  });
});
