// Reductions, counts and statistics of segments: values against the table's plain references, gradients against central
// differences, on every executor.
import { describe, expect, it } from "vitest";
import { createBatch } from "../../../src/engine/batch.ts";
import { defineLoss, perGroup, perSample } from "../../../src/loss/define.ts";
import { OPS } from "../../../src/loss/ops.ts";
import type { Tensor } from "../../../src/loss/tensor.ts";
import { relativeError } from "../../helpers.ts";
import { slopes, useEngine } from "../helpers.ts";
import {
  EXECUTIONS,
  GROUPS,
  groupOfSample,
  LENGTHS,
  ofSignature,
  packedGradients,
  sampleOf,
  spacedNumbers,
  TOKENS,
  TOLERANCES,
  useEngines,
  weights,
} from "./batch.ts";

const engines = useEngines();
const held = useEngine();

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

  const ops = [
    ...ofSignature("reduction", "count").map((name) => ({ name, correction: undefined })),
    ...ofSignature("statistic").flatMap((name) => [0, 1].map((correction) => ({ name, correction }))),
  ];
  const cases = ops.flatMap((op) =>
    PATHS.flatMap(([from, to]) => EXECUTIONS.map((execution) => ({ ...op, from, to, ...execution }))),
  );
  it.each(cases)("$name $correction of $from to $to on $executor in $precision", async (given) => {
    const { name, correction, from, to, executor, precision } = given;
    const segments = segmentsOf(from, to);
    const upstream = spacedNumbers(segments.length, 0.5, 1.5, 21);
    const x = spacedNumbers(TOKENS, -3, 3, 22);
    const attributes = correction === undefined ? [] : [correction];
    const plain = OPS[name].reference as (...values: number[]) => number;
    const reference = (...values: number[]) => plain(...values, ...attributes);
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
        const reduced = values[name as "var"](
          to as "sample",
          correction === undefined ? undefined : { correction: correction as 0 | 1 },
        );
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
    const result = await engines[executor].run(loss, batch, { dtype: precision });
    const got = packedGradients(result);
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

  it.each(EXECUTIONS)(
    "shares ties on $executor in $precision, whichever way it points",
    async (execution) => {
      for (const [op, sign] of [
        ["max", 1],
        ["min", -1],
      ] as const) {
        for (const factor of [2, -2]) {
          const loss = defineLoss({
            loss: ({ logprobs }) =>
              logprobs.mul(sign)[op]("sample").mul(factor).sum().add(logprobs.mul(sign)[op]().mul(factor)),
          });
          const batch = await createBatch({
            weights: [
              [1, 1, 1],
              [1, 1],
            ],
            logprobs: [
              [-0.5, -3, -0.5],
              [-0.5, -1.5],
            ],
            precision: execution.precision,
          });
          const { gradients } = await engines[execution.executor].run(loss, batch, {
            dtype: execution.precision,
          });
          const [share, third] = [(sign * factor) / 2, (sign * factor) / 3];
          const expected = [
            [share + third, 0, share + third],
            [2 * share + third, 0],
          ];
          [...gradients].forEach((row, i) => {
            expect(relativeError(row, expected[i]!)).toBeLessThan(1e-6);
          });
        }
      }
    },
  );

  it("shares the gradient of ties equally, over the whole segment", async () => {
    const largest = defineLoss({ loss: ({ logprobs }) => logprobs.max() });
    const batch = await createBatch({ weights: [[1, 1], [1]], logprobs: [[-1, -2], [-1]] });
    const { gradients } = await held.engine.run(largest, batch);
    expect([...gradients].map((row) => [...row])).toEqual([[0.5, 0], [0.5]]);
  });
});
