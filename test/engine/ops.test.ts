// Every op of the language through the engine: values against the table's plain references, gradients against central
// differences, in both precisions.
import { describe, expect, it } from "vitest";
import { createBatch } from "../../src/engine/batch.ts";
import { defineLoss, perGroup, perSample, perToken } from "../../src/loss/define.ts";
import { OPS, type OpName, type OpRow } from "../../src/loss/ops.ts";
import type { Mask, Tensor } from "../../src/loss/tensor.ts";
import { relativeError, seededRandom } from "../helpers.ts";
import { slopes, useEngine } from "./helpers.ts";

const held = useEngine();
const names = Object.keys(OPS) as OpName[];
const ofSignature = (...signatures: string[]) =>
  names.filter((name) => signatures.includes(OPS[name].signature));
const referenceOf = (name: OpName) => (OPS[name] as OpRow).reference;

const TOLERANCES = { float32: { value: 3e-6, slope: 2e-5 }, float64: { value: 1e-13, slope: 1e-8 } } as const;
const PRECISIONS = ["float32", "float64"] as const;

/** Samples of 3, 0, 5, 1 and 0 trained tokens, in groups of 2, 2 and 1. */
const LENGTHS = [3, 0, 5, 1, 0];
const GROUPS = [2, 2, 1];
const TOKENS = 9;
const sampleOf = LENGTHS.flatMap((length, sample) => Array<number>(length).fill(sample));
const groupOfSample = GROUPS.flatMap((size, group) => Array<number>(size).fill(group));
const weights = LENGTHS.map((length) => [0, ...Array<number>(length).fill(1), 0]);

/** Float32 numbers between two bounds, no two of them close together. */
function spacedNumbers(count: number, low: number, high: number, seed: number): number[] {
  const random = seededRandom(seed);
  const places = Array.from({ length: count }, (_, i) => (i + 0.2 + 0.6 * random()) / count);
  const order = places.map((place) => ({ place, key: random() })).sort((a, b) => a.key - b.key);
  return order.map(({ place }) => Math.fround(low + (high - low) * place));
}

/** Where the op and its slope exist. */
const domainOf = (name: OpName): [number, number] =>
  ["log", "sqrt", "pow", "div"].includes(name) ? [0.2, 3] : name === "log1p" ? [-0.8, 3] : [-3, 3];

type TokenOp = (x: Tensor<"token">, y: Tensor<"token">, z: Tensor<"token">) => Tensor<"token">;

/** How a loss calls each elementwise op. A mask is made visible by its indicator. */
function callOf(name: OpName, exponent: number): TokenOp {
  // biome-ignore lint/suspicious/noExplicitAny: the method is chosen by name
  const call = (x: object, ...args: unknown[]) => (x as any)[name](...args);
  switch (OPS[name].signature) {
    case "clamp":
      return (x, y, z) => call(x, y.minimum(z), y.maximum(z));
    case "power":
      return (x) => call(x, exponent);
    case "comparison":
      return (x, y) => call(x, y).indicator();
    case "connective":
      return (x, y, z) => call(x.gt(y), x.gt(z)).indicator();
    case "negation":
      return (x, y) => (call(x.gt(y)) as Mask<"token">).indicator();
    case "select":
      return (x, y, z) => call(x.gt(y), x, z);
    case "indicator":
      return (x, y) => call(x.gt(y));
    default:
      return (x, y) => call(x, y);
  }
}

/** The same in plain numbers. */
function plainOf(name: OpName, exponent: number): (x: number, y: number, z: number) => number {
  const reference = referenceOf(name);
  switch (OPS[name].signature) {
    case "clamp":
      return (x, y, z) => reference(x, Math.min(y, z), Math.max(y, z));
    case "power":
      return (x) => reference(x, exponent);
    case "connective":
      return (x, y, z) => reference(+(x > y), +(x > z));
    case "negation":
    case "indicator":
      return (x, y) => reference(+(x > y));
    case "select":
      return (x, y, z) => reference(+(x > y), x, z);
    default:
      return (x, y) => reference(x, y);
  }
}

describe("elementwise ops", () => {
  const elementwise = names.filter((name) => !ofSignature("reduction", "count", "member").includes(name));
  const cases = elementwise.flatMap((name) =>
    (name === "pow" ? [2, 3, 1, 0, -1, 0.5, -2.5] : [Number.NaN]).flatMap((exponent) =>
      PRECISIONS.map((precision) => ({ name, exponent, precision })),
    ),
  );

  it.each(cases)("$name $exponent in $precision", async ({ name, exponent, precision }) => {
    const [low, high] = domainOf(name);
    const [x, y, z] = [11, 12, 13].map((seed) => spacedNumbers(TOKENS, low, high, seed)) as [
      number[],
      number[],
      number[],
    ];
    const upstream = spacedNumbers(TOKENS, 0.5, 1.5, 14);
    const op = callOf(name, exponent);
    const plain = plainOf(name, exponent);
    const total = (x: readonly number[], y: readonly number[]) =>
      x.reduce((sum, value, i) => sum + plain(value, y[i]!, z[i]!) * upstream[i]!, 0);

    // Once as the first operand and once as the second.
    for (const place of [0, 1] as const) {
      const loss = defineLoss({
        inputs: { other: perToken(), third: perToken(), upstream: perToken() },
        // The variable itself takes part with a factor of 0, for ops that no gradient passes.
        loss: ({ logprobs, other, third, upstream }) => {
          const value = place === 0 ? op(logprobs, other, third) : op(other, logprobs, third);
          return value.mul(upstream).sum().add(logprobs.sum().mul(0));
        },
      });
      const variable = place === 0 ? x : y;
      const batch = await createBatch({
        weights,
        precision,
        logprobs: Float64Array.from(variable),
        inputs: { other: place === 0 ? y : x, third: z, upstream },
      });
      const result = await held.engine.run(loss, batch, { dtype: precision });
      const got = LENGTHS.flatMap((length, i) => [...result.gradients.row(i).subarray(1, 1 + length)]);
      const expected = slopes((values) => (place === 0 ? total(values, y) : total(x, values)), variable).map(
        (slope) => (name === "detach" ? 0 : slope),
      );
      expect(Math.abs(result.loss - total(x, y))).toBeLessThan(
        TOLERANCES[precision].value * Math.max(1, Math.abs(total(x, y))),
      );
      expect(relativeError(got, expected)).toBeLessThan(TOLERANCES[precision].slope);
    }
  });
});

describe("reductions", () => {
  const PATHS = [
    ["token", "sample"],
    ["token", "group"],
    ["token", "batch"],
    ["sample", "group"],
    ["sample", "batch"],
    ["group", "batch"],
  ] as const;
  /** The members of each segment, as indices of the finer axis. */
  const segmentsOf = (from: string, to: string): number[][] => {
    const tokens = sampleOf.map((_, token) => token);
    const samples = LENGTHS.map((_, sample) => sample);
    if (to === "batch")
      return [from === "token" ? tokens : from === "sample" ? samples : GROUPS.map((_, g) => g)];
    if (to === "sample") return samples.map((sample) => tokens.filter((token) => sampleOf[token] === sample));
    const members = from === "token" ? tokens : samples;
    const groupOf = (i: number) => groupOfSample[from === "token" ? sampleOf[i]! : i];
    return GROUPS.map((_, group) => members.filter((i) => groupOf(i) === group));
  };
  const declared = { sample: perSample(), group: perGroup() };

  const cases = ofSignature("reduction", "count").flatMap((name) =>
    PATHS.flatMap(([from, to]) => PRECISIONS.map((precision) => ({ name, from, to, precision }))),
  );
  it.each(cases)("$name of $from to $to in $precision", async ({ name, from, to, precision }) => {
    const segments = segmentsOf(from, to);
    const upstream = spacedNumbers(segments.length, 0.5, 1.5, 21);
    const x = spacedNumbers(TOKENS, -3, 3, 22);
    const reference = referenceOf(name);
    // What is reduced from a coarser axis is itself a function of the tokens: sums of squares.
    const lift = (x: readonly number[]): number[] => {
      if (from === "token") return [...x];
      const size = from === "sample" ? LENGTHS.length : GROUPS.length;
      const sums = Array<number>(size).fill(0);
      x.forEach((value, token) => {
        const sample = sampleOf[token]!;
        sums[from === "sample" ? sample : groupOfSample[sample]!]! += value * value;
      });
      return sums;
    };
    const total = (x: readonly number[]) => {
      const values = lift(x);
      return segments.reduce(
        (sum, members, s) =>
          sum + (members.length === 0 ? 0 : reference(...members.map((i) => values[i]!)) * upstream[s]!),
        0,
      );
    };
    const loss = defineLoss({
      inputs: to === "batch" ? {} : { upstream: declared[to] },
      params: { one: upstream[0]! },
      loss: (given) => {
        const { logprobs, one } = given;
        const scale = (given as unknown as { upstream?: Tensor<"sample"> }).upstream ?? (one as never);
        const values = (from === "token" ? logprobs : logprobs.square().sum(from)) as Tensor<"token">;
        const reduced = values[name as "sum"](to as "sample");
        // An empty segment gives an infinity or 0; neither counts here.
        const kept = values
          .count(to as "sample")
          .gt(0)
          .where(reduced, 0)
          .mul(scale);
        return (to === "batch" ? (kept as unknown as Tensor<"batch">) : kept.sum()).add(
          logprobs.sum().mul(0),
        );
      },
    });
    const batch = await createBatch({
      weights,
      precision,
      groups: GROUPS,
      logprobs: Float64Array.from(x),
      inputs: to === "batch" ? {} : { upstream },
    });
    const result = await held.engine.run(loss, batch, { dtype: precision });
    const got = LENGTHS.flatMap((length, i) => [...result.gradients.row(i).subarray(1, 1 + length)]);
    const size = Math.max(1, Math.abs(total(x)));
    expect(Math.abs(result.loss - total(x))).toBeLessThan(TOLERANCES[precision].value * size);
    expect(relativeError(got, slopes(total, x))).toBeLessThan(TOLERANCES[precision].slope * 10);
    // Untrained positions stay 0.
    for (const row of result.gradients) expect([row[0], row.at(-1)]).toEqual([0, 0]);
  });

  it("gives the neutral values of empty segments", async () => {
    const loss = defineLoss({
      loss: ({ logprobs }) => ({
        loss: logprobs.sum(),
        metrics: {
          sum: logprobs.sum("sample").member(1).sum(),
          mean: logprobs.mean("sample").member(1).sum(),
          max: logprobs.max("sample").member(1).max(),
          min: logprobs.min("sample").member(1).min(),
          logsumexp: logprobs.logsumexp("sample").member(1).max(),
          count: logprobs.count("sample").member(1).sum(),
        },
      }),
    });
    const batch = await createBatch({ weights: [[1], [0]], groups: 2, logprobs: [[-1], [-9]] });
    const { metrics, emptySamples } = await held.engine.run(loss, batch);
    expect(metrics).toEqual({
      sum: 0,
      mean: 0,
      max: -Infinity,
      min: Infinity,
      logsumexp: -Infinity,
      count: 0,
    });
    expect(emptySamples).toBe(1);
  });

  it("counts the trues of a mask on every axis", async () => {
    const loss = defineLoss({
      inputs: { perSample: perSample() },
      loss: ({ logprobs, perSample }) => {
        const low = logprobs.lt(-2);
        return {
          loss: logprobs.sum(),
          metrics: {
            all: low.count(),
            largest: low.count("sample").max(),
            group: low.count("group").max(),
            samples: perSample.gt(0).count(),
            every: logprobs.count(),
          },
        };
      },
    });
    const batch = await createBatch({
      weights: [[1, 1], [1], [1, 1]],
      groups: [2, 1],
      logprobs: [[-3, -1], [-3], [-3, -3]],
      inputs: { perSample: [1, -1, 1] },
    });
    const { metrics } = await held.engine.run(loss, batch);
    expect(metrics).toEqual({ all: 4, largest: 2, group: 2, samples: 2, every: 5 });
  });

  it("shares the gradient of ties equally, over the whole segment", async () => {
    const largest = defineLoss({ loss: ({ logprobs }) => logprobs.max() });
    const batch = await createBatch({ weights: [[1, 1], [1]], logprobs: [[-1, -2], [-1]] });
    const { gradients } = await held.engine.run(largest, batch);
    expect([...gradients].map((row) => [...row])).toEqual([[0.5, 0], [0.5]]);
  });
});

describe("member", () => {
  const second = defineLoss({ loss: ({ logprobs }) => logprobs.sum("sample").member(1).sum() });

  it("takes the k-th sample of each group", async () => {
    const batch = await createBatch({
      weights: [[1], [1, 1], [1], [1], [1]],
      groups: [2, 3],
      logprobs: [[-1], [-2, -3], [-4], [-5], [-6]],
    });
    const { loss, gradients } = await held.engine.run(second, batch);
    expect(loss).toBe(-10);
    expect([...gradients].map((row) => [...row])).toEqual([[0], [1, 1], [0], [1], [0]]);
  });

  it("names the group that is too small", async () => {
    const batch = await createBatch({
      weights: [[1], [1], [1]],
      groups: [2, 1],
      logprobs: [[-1], [-2], [-3]],
    });
    await expect(held.engine.run(second, batch)).rejects.toMatchObject({
      code: "ERR_INPUT",
      path: "groups",
      message: expect.stringContaining("group 1: expected at least 2 samples, got 1"),
    });
  });
});

describe("precision", () => {
  it("sums float32 tokens in float64", async () => {
    const count = 100_000;
    const logprobs = new Float32Array(count).fill(1);
    logprobs[0] = 1e8;
    const batch = await createBatch({ weights: [new Float32Array(count).fill(1)], logprobs });
    const loss = defineLoss({ loss: ({ logprobs }) => logprobs.sum() });
    expect((await held.engine.run(loss, batch)).loss).toBe(1e8 + count - 1);
  });

  it("keeps values per sample and per batch in float64", async () => {
    const tiny = 2 ** -40;
    const loss = defineLoss({
      inputs: { advantages: perSample() },
      params: { shift: 1 },
      loss: ({ logprobs, advantages, shift }) => logprobs.sum().add(advantages.sub(shift).sum()),
    });
    const batch = await createBatch({ weights: [[1]], logprobs: [[0]], inputs: { advantages: [1 + tiny] } });
    expect((await held.engine.run(loss, batch)).loss).toBe(tiny);
  });

  it("gives gradients of a batch scalar the digits of float64", async () => {
    // d/dx of (x - mean x)^2 summed: the sum over tokens of the inner gradient cancels to 0.
    const random = seededRandom(5);
    const logprobs = Float32Array.from({ length: 50_000 }, () => -10 * random());
    const loss = defineLoss({ loss: ({ logprobs }) => logprobs.sub(logprobs.mean()).square().sum() });
    const batch = await createBatch({ weights: [new Float32Array(50_000).fill(1)], logprobs });
    const { gradients } = await held.engine.run(loss, batch);
    const mean = logprobs.reduce((sum, x) => sum + x, 0) / logprobs.length;
    const expected = [...logprobs].map((x) => 2 * (x - mean));
    expect(relativeError(gradients.row(0), expected)).toBeLessThan(1e-6);
  });
});
