// Makes a loss of a golden case of one op.
import { describe } from "../errors.ts";
import { defineLoss, type Loss, perSample, perToken } from "../loss/define.ts";
import type { Tensor } from "../loss/tensor.ts";
import { CaseError, type OpCase } from "./cases.ts";

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

/** Whether a case's op is among samples of one token each. */
export const isAmongSamples = ({ op }: OpCase): boolean => Object.hasOwn(SAMPLE_OPS, op);

/** A case with `x` or `y` as the variable. `upstream` is an input, so that one program gives sums and single values. */
export function opLoss({ op, params }: OpCase, variable: "x" | "y"): Loss {
  // The variable itself takes part with a factor of 0, for ops that no gradient passes.
  const total = (value: Tensor<"batch">, logprobs: Tokens) => value.add(logprobs.sum().mul(0));
  if (Object.hasOwn(SAMPLE_OPS, op)) {
    return defineLoss({
      inputs: { upstream: perSample(), index: perSample() },
      loss: ({ logprobs, upstream, index }) =>
        total(SAMPLE_OPS[op]!(logprobs.sum("sample"), index).mul(upstream).sum(), logprobs),
    });
  }
  if (Object.hasOwn(SEGMENT_OPS, op)) {
    return defineLoss({
      inputs: { upstream: perSample() },
      loss: ({ logprobs, upstream }) =>
        total(SEGMENT_OPS[op]!(logprobs, params).mul(upstream).sum(), logprobs),
    });
  }
  const compute = op === "stop_gradient" ? EXPRESSIONS[String(params.expression)] : TOKEN_OPS[op];
  if (compute === undefined) throw new CaseError(`op: expected one that is known, got ${describe(op)}`);
  return defineLoss({
    inputs: { upstream: perToken(), other: perToken() },
    loss: ({ logprobs, upstream, other }) => {
      const [x, y] = variable === "x" ? [logprobs, other] : [other, logprobs];
      return total(compute(x, y, params).mul(upstream).sum(), logprobs);
    },
  });
}
