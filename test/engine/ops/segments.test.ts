// Ops along segments: softmax, order, running sums, shifts and gathers, against the table's plain references and central
// differences, on every executor.
import { describe, expect, it } from "vitest";
import { createBatch } from "../../../src/engine/batch.ts";
import { defineLoss, perGroup, perSample, perToken } from "../../../src/loss/define.ts";
import { OPS, type Reference } from "../../../src/loss/ops.ts";
import type { Mask, Tensor } from "../../../src/loss/tensor.ts";
import { relativeError } from "../../helpers.ts";
import { slopes } from "../helpers.ts";
import {
  type EngineName,
  EXECUTIONS,
  GROUPS,
  groupOfSample,
  LENGTHS,
  packedGradients,
  sampleOf,
  spacedNumbers,
  TOKENS,
  TOLERANCES,
  useEngines,
  weights,
} from "./batch.ts";

const engines = useEngines();
type Along = "softmax" | "logSoftmax" | "rank" | "sort" | "topK" | "cumsum" | "shift";
type Attributes = Readonly<Record<string, number>>;
const along = (name: Along) => OPS[name].reference as Reference<"scan">;

/** Elements that share a segment, for each axis and each coarser one. */
const indices = (count: number) => Array.from({ length: count }, (_, i) => i);
const split = (count: number, segmentOf: (i: number) => number, segments: number) =>
  indices(segments).map((segment) => indices(count).filter((i) => segmentOf(i) === segment));
const SEGMENTS = {
  token: {
    sample: split(TOKENS, (i) => sampleOf[i]!, LENGTHS.length),
    group: split(TOKENS, (i) => groupOfSample[sampleOf[i]!]!, GROUPS.length),
    batch: [indices(TOKENS)],
  },
  sample: {
    group: split(LENGTHS.length, (i) => groupOfSample[i]!, GROUPS.length),
    batch: [indices(LENGTHS.length)],
  },
  group: { batch: [indices(GROUPS.length)] },
} as const;
type From = keyof typeof SEGMENTS;

/** What varies over an axis: the tokens themselves, or sums of cubes plus a number for each element. */
function lift(from: From, x: readonly number[], shifts: readonly number[]): number[] {
  if (from === "token") return [...x];
  const values = [...shifts];
  x.forEach((value, token) => {
    const sample = sampleOf[token]!;
    values[from === "sample" ? sample : groupOfSample[sample]!]! += value ** 3;
  });
  return values;
}

interface Case {
  readonly name: Along;
  readonly from: From;
  readonly within: "sample" | "group" | "batch";
  readonly attributes: Attributes;
  readonly call: (x: Tensor<"token">) => Tensor<"token">;
}

const everywhere = (
  name: Along,
  attributes: Attributes,
  call: (x: Tensor<"token">, within: "sample") => Tensor<"token">,
  axes: readonly From[] = ["token", "sample", "group"],
): Case[] =>
  axes.flatMap((from) =>
    (Object.keys(SEGMENTS[from]) as Case["within"][]).map((within) => ({
      name,
      from,
      within,
      attributes,
      call: (x: Tensor<"token">) => call(x, within as "sample"),
    })),
  );

const scan = (reverse: boolean, exclusive: boolean, discount: number): Case => ({
  name: "cumsum",
  from: "token",
  within: "sample",
  attributes: { reverse: +reverse, exclusive: +exclusive, discount },
  call: (x) => x.cumsum({ reverse, exclusive, discount }),
});
const shift = (offset: number): Case => ({
  name: "shift",
  from: "token",
  within: "sample",
  attributes: { offset },
  call: (x) => x.shift(offset),
});

const CASES: readonly Case[] = [
  ...everywhere("softmax", {}, (x, within) => x.softmax(within)),
  ...everywhere("logSoftmax", {}, (x, within) => x.logSoftmax(within)),
  ...everywhere("rank", {}, (x, within) => x.rank(within)),
  ...everywhere("topK", { k: 2 }, (x, within) => (x.topK(2, within) as Mask<"token">).indicator()),
  ...everywhere(
    "sort",
    {},
    (x, within) => (x as unknown as Tensor<"sample">).sort(within as never) as unknown as Tensor<"token">,
    ["sample", "group"],
  ),
  ...[true, false].flatMap((reverse) =>
    [true, false].flatMap((exclusive) => [1, 0.5].map((discount) => scan(reverse, exclusive, discount))),
  ),
  ...[1, -1, 2, 0, 7].map(shift),
];

describe("ops along segments", () => {
  const declared = { token: perToken(), sample: perSample(), group: perGroup() };
  const cases = CASES.flatMap((given) =>
    EXECUTIONS.map((execution) => ({ ...given, ...execution, options: JSON.stringify(given.attributes) })),
  );
  it.each(cases)("$name $options of $from within $within on $executor in $precision", async (given) => {
    const { name, from, within, attributes, call, executor, precision } = given;
    const segments = SEGMENTS[from][within as "batch"] as readonly (readonly number[])[];
    const size = { token: TOKENS, sample: LENGTHS.length, group: GROUPS.length }[from];
    const x = spacedNumbers(TOKENS, -1.5, 1.5, 31);
    const shifts = spacedNumbers(size, -1, 1, 32);
    const upstream = spacedNumbers(size, 0.5, 1.5, 33);
    const total = (x: readonly number[]) => {
      const values = lift(from, x, shifts);
      return segments.reduce((sum, members) => {
        const results = along(name)(
          members.map((i) => values[i]!),
          attributes,
        );
        return results.reduce((part, result, k) => part + result * upstream[members[k]!]!, sum);
      }, 0);
    };
    const loss = defineLoss({
      inputs: { upstream: declared[from], shifts: declared[from] },
      loss: ({ logprobs, upstream, shifts }) => {
        const values =
          from === "token"
            ? logprobs
            : logprobs
                .pow(3)
                .sum(from)
                .add(shifts as Tensor<"sample">);
        const result = call(values as Tensor<"token">).mul(upstream as Tensor<"token">);
        return result.sum().add(logprobs.sum().mul(0));
      },
    });
    const batch = await createBatch({
      weights,
      precision,
      groups: GROUPS,
      logprobs: Float64Array.from(x),
      inputs: { upstream, shifts },
    });
    const result = await engines[executor].run(loss, batch, { dtype: precision });
    const expected = total(x);
    expect(Math.abs(result.loss - expected)).toBeLessThan(
      TOLERANCES[precision].value * Math.max(1, Math.abs(expected)),
    );
    expect(relativeError(packedGradients(result), slopes(total, x))).toBeLessThan(
      TOLERANCES[precision].slope * 10,
    );
  });
});

describe.each(EXECUTIONS)("gather on $executor in $precision", ({ executor, precision }) => {
  const pick = defineLoss({
    inputs: { index: perSample(), upstream: perSample() },
    loss: ({ logprobs, index, upstream }) => logprobs.sum("sample").gather(index).mul(upstream).sum(),
  });
  const run = async (executor: EngineName, index: number[]) => {
    const batch = await createBatch({
      weights: [[1], [1], [1], [1]],
      logprobs: [[1], [-1], [2], [0.5]],
      precision,
      inputs: { index, upstream: [1, 1.5, 2, 2.5] },
    });
    return engines[executor].run(pick, batch);
  };

  it("adds up the gradients of what is taken more than once", async () => {
    const { loss, gradients } = await run(executor, [0, 2, 2, 1]);
    expect(loss).toBe(1 + 3 + 4 - 2.5);
    expect([...gradients].map(([value]) => value)).toEqual([1, 2.5, 3.5, 0]);
  });

  it.each([[[0, 1, 2, 4]], [[0, 1, -1, 2]], [[0, 0.5, 1, 2]]])("refuses the numbers %j", async (index) => {
    await expect(run(executor, index)).rejects.toMatchObject({
      code: "ERR_INPUT",
      message: expect.stringMatching(/expected a whole number from 0 to 3, got/),
    });
  });

  it("goes from groups to samples and back", async () => {
    const loss = defineLoss({
      inputs: { groupOf: perSample(), best: perGroup() },
      loss: ({ logprobs, groupOf, best }) => {
        const sums = logprobs.sum("sample");
        return sums.sum("group").gather(groupOf).mul(sums).sum().add(sums.gather(best).sum());
      },
    });
    const batch = await createBatch({
      weights: [[1], [1], [1]],
      groups: [2, 1],
      logprobs: [[1], [2], [4]],
      precision,
      inputs: { groupOf: [0, 0, 1], best: [1, 1] },
    });
    const { loss: value, gradients } = await engines[executor].run(loss, batch);
    expect(value).toBe(3 * 3 + 4 * 4 + 2 + 2);
    expect([...gradients].map(([value]) => value)).toEqual([6, 8, 8]);
  });
});
