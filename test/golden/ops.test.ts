// The ops against PyTorch's values, above all at ties and kinks, with every executor and precision.
import { describe, expect, test } from "vitest";
import { createBatch } from "../../src/engine/batch.ts";
import { defineLoss, type Loss, perSample, perToken } from "../../src/loss/define.ts";
import type { Tensor } from "../../src/loss/tensor.ts";
import { EXECUTIONS, useEngines } from "../engine/ops/batch.ts";
import { type OpCase, opCases, type Row } from "./cases.ts";

const engines = useEngines();
/** Relative to the largest number of a case. */
const TOLERANCES = { float32: { relative: 2e-5, floor: 1e-37 }, float64: { relative: 1e-9, floor: 1e-300 } };

type Tokens = Tensor<"token">;
type Samples = Tensor<"sample">;
type Params = OpCase["params"];

/** What varies over the tokens of a case: of one sample, or of the segments that it names. */
const TOKEN_OPS: Record<string, (x: Tokens, y: Tokens, params: Params) => Tokens> = {
  abs: (x) => x.abs(),
  clamp: (x, _, { min, max }) => x.clamp(min, max),
  cumsum: (x) => x.cumsum(),
  discounted_reverse_cumsum: (x, _, { gamma }) => x.cumsum({ reverse: true, discount: gamma! }),
  div: (x, y) => x.div(y),
  exp: (x) => x.exp(),
  expm1: (x) => x.expm1(),
  log: (x) => x.log(),
  log1mexp: (x) => x.log1mexp(),
  log1p: (x) => x.log1p(),
  logsigmoid: (x) => x.logSigmoid(),
  maximum: (x, y) => x.maximum(y),
  minimum: (x, y) => x.minimum(y),
  relu: (x) => x.relu(),
  sigmoid: (x) => x.sigmoid(),
  sign: (x) => x.sign(),
  softplus: (x) => x.softplus(),
  sqrt: (x) => x.sqrt(),
  square: (x) => x.square(),
  // The guard is for autograd: to the others a branch that is not taken is no trouble.
  where: (x) => x.gt(0).where(x.gt(0).where(x, 1).log(), 0),
};
const EXPRESSIONS: Record<string, (x: Tokens) => Tokens> = {
  "stop_gradient(exp(x)) * x": (x) => x.exp().detach().mul(x),
  "0.5*x^2 - stop_gradient(0.5*x^2) + stop_gradient(exp(x))": (x) => {
    const half = x.square().mul(0.5);
    return half.sub(half.detach()).add(x.exp().detach());
  },
};
/** From the tokens of samples to one number each. */
const SEGMENT_OPS: Record<string, (x: Tokens, params: Params) => Samples> = {
  segment_logsumexp: (x) => x.logsumexp("sample"),
  segment_max: (x) => x.max("sample"),
  segment_mean: (x) => x.mean("sample"),
  segment_min: (x) => x.min("sample"),
  segment_std: (x, { correction }) => x.std("sample", { correction: correction! }),
  segment_sum: (x) => x.sum("sample"),
  segment_var: (x, { correction }) => x.var("sample", { correction: correction! }),
};
/** Among samples of one token each. */
const SAMPLE_OPS: Record<string, (x: Samples, index: Samples) => Samples> = {
  gather: (x, index) => x.gather(index),
  sort: (x) => x.sort(),
};

/** A case with `x` or `y` as the variable. `upstream` is an input, so that one program gives sums and single values. */
function lossOf({ op, params }: OpCase, variable: "x" | "y"): Loss {
  // The variable itself takes part with a factor of 0, for ops that no gradient passes.
  const total = (value: Tensor<"batch">, logprobs: Tokens) => value.add(logprobs.sum().mul(0));
  if (op in SAMPLE_OPS) {
    return defineLoss({
      inputs: { upstream: perSample(), index: perSample() },
      loss: ({ logprobs, upstream, index }) =>
        total(SAMPLE_OPS[op]!(logprobs.sum("sample"), index).mul(upstream).sum(), logprobs),
    });
  }
  if (op in SEGMENT_OPS) {
    return defineLoss({
      inputs: { upstream: perSample() },
      loss: ({ logprobs, upstream }) =>
        total(SEGMENT_OPS[op]!(logprobs, params).mul(upstream).sum(), logprobs),
    });
  }
  return defineLoss({
    inputs: { upstream: perToken(), other: perToken() },
    loss: ({ logprobs, upstream, other }) => {
      const compute = op === "stop_gradient" ? EXPRESSIONS[params.expression!] : TOKEN_OPS[op];
      const [x, y] = variable === "x" ? [logprobs, other] : [other, logprobs];
      return total(compute!(x, y, params).mul(upstream).sum(), logprobs);
    },
  });
}

test("there are 34 cases", () => expect(opCases).toHaveLength(34));

describe.each(EXECUTIONS)("$executor in $precision", ({ executor, precision }) => {
  function expectClose(got: Row, expected: Row): void {
    const { relative, floor } = TOLERANCES[precision];
    const bound = relative * Math.max(...expected.map(Math.abs)) + floor;
    expect(got).toHaveLength(expected.length);
    got.forEach((value, i) => {
      expect(Math.abs(value - expected[i]!), `number ${i}: ${value}`).toBeLessThanOrEqual(bound);
    });
  }

  test.each(opCases.map((golden) => [golden.name, golden] as const))("%s", async (_, golden) => {
    const { op, params, inputs, upstream, expected } = golden;
    for (const variable of ["x", "y"] as const) {
      const values = inputs[variable];
      if (values === undefined) continue;
      const loss = lossOf(golden, variable);
      const lengths = params.lengths ?? (op in SAMPLE_OPS ? values.map(() => 1) : [values.length]);
      const other = inputs[variable === "x" ? "y" : "x"] ?? values;
      const batch = async (upstream: Row) =>
        createBatch({
          weights: lengths.map((length) => Array<number>(Math.max(length, 1)).fill(+(length > 0))),
          precision,
          logprobs: Float64Array.from(values),
          inputs: {
            upstream,
            ...("other" in loss.inputs && { other }),
            ...("index" in loss.inputs && { index: params.index ?? values.map((_, i) => i) }),
          },
        });
      const { gradients } = await engines[executor].run(loss, await batch(upstream), { dtype: precision });
      const rows = [...gradients].map((row, i) => [...row].slice(0, lengths[i]!));
      expectClose(rows.flat(), expected.gradients[variable]!);

      const found: number[] = [];
      for (const i of upstream.keys()) {
        const single = upstream.map((_, j) => +(i === j));
        found.push((await engines[executor].run(loss, await batch(single))).loss);
      }
      expectClose(found, expected.value);
    }
  });
});
