// The op table. An op of the language is one row here; methods, types, the executor's program and tests are derived
// from it.
import type { Kind } from "./graph.ts";

/** How an op is called: the kinds of its operands and result, and how its axis follows from theirs. */
export const SIGNATURES = {
  unary: { operands: ["number"], result: "number", axis: "finest" },
  binary: { operands: ["number", "number"], result: "number", axis: "finest" },
  clamp: { operands: ["number", "number", "number"], result: "number", axis: "finest" },
  power: { operands: ["number"], result: "number", axis: "finest" },
  comparison: { operands: ["number", "number"], result: "mask", axis: "finest" },
  connective: { operands: ["mask", "mask"], result: "mask", axis: "finest" },
  negation: { operands: ["mask"], result: "mask", axis: "finest" },
  select: { operands: ["mask", "number", "number"], result: "number", axis: "finest" },
  indicator: { operands: ["mask"], result: "number", axis: "finest" },
  reduction: { operands: ["number"], result: "number", axis: "coarser" },
  count: { operands: ["any"], result: "number", axis: "coarser" },
  member: { operands: ["number"], result: "number", axis: "member" },
} as const satisfies Record<
  string,
  { operands: readonly (Kind | "any")[]; result: Kind; axis: "finest" | "coarser" | "member" }
>;

export type SignatureName = keyof typeof SIGNATURES;

export interface OpRow<S extends SignatureName = SignatureName> {
  readonly signature: S;
  /** The ATen operator, with its overload, of an elementwise op; absent where the executor has a rule of its own. */
  readonly aten?: string;
  /**
   * The op in plain numbers: operands in order, then the static number if there is one. A mask is 1 or 0; a reduction
   * takes the members of one segment.
   */
  readonly reference: (...values: number[]) => number;
}

const row =
  <S extends SignatureName>(signature: S) =>
  (aten: string, reference: OpRow["reference"]): OpRow<S> => ({ signature, aten, reference });
const structural = <S extends SignatureName>(signature: S, reference: OpRow["reference"]): OpRow<S> => ({
  signature,
  reference,
});

const unary = row("unary");
const binary = row("binary");
const comparison = row("comparison");
const connective = row("connective");

const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);
const logSigmoid = (x: number) => Math.min(x, 0) - Math.log1p(Math.exp(-Math.abs(x)));

export const OPS = {
  /** `x + y`. */
  add: binary("add.Tensor", (x, y) => x! + y!),
  /** `x - y`. */
  sub: binary("sub.Tensor", (x, y) => x! - y!),
  /** `x * y`. */
  mul: binary("mul.Tensor", (x, y) => x! * y!),
  /** `x / y`. */
  div: binary("div.Tensor", (x, y) => x! / y!),
  /** The smaller of two; at a tie each gets half of the gradient. */
  minimum: binary("minimum", Math.min),
  /** The larger of two; at a tie each gets half of the gradient. */
  maximum: binary("maximum", Math.max),
  /** `x` held between a lower and an upper bound; the gradient is 1 inside and at a bound, 0 outside. */
  clamp: row("clamp")("clamp.Tensor", (x, lower, upper) => Math.min(Math.max(x!, lower!), upper!)),
  /** `x` to the power of a plain number. */
  pow: row("power")("pow.Tensor_Scalar", (x, exponent) => x! ** exponent!),

  /** `-x`. */
  neg: unary("neg", (x) => -x!),
  /** `|x|`; the gradient at 0 is 0. */
  abs: unary("abs", (x) => Math.abs(x!)),
  /** `x * x`. */
  square: unary("square", (x) => x! * x!),
  /** The square root of `x`. */
  sqrt: unary("sqrt", (x) => Math.sqrt(x!)),
  /** `e` to the power of `x`. */
  exp: unary("exp", (x) => Math.exp(x!)),
  /** The natural logarithm of `x`. */
  log: unary("log", (x) => Math.log(x!)),
  /** `log(1 + x)`, exact for small `x`. */
  log1p: unary("log1p", (x) => Math.log1p(x!)),
  /** `exp(x) - 1`, exact for small `x`. */
  expm1: unary("expm1", (x) => Math.expm1(x!)),
  /** `1 / (1 + exp(-x))`. */
  sigmoid: unary("sigmoid", (x) => 1 / (1 + Math.exp(-x!))),
  /** `log(sigmoid(x))`, exact in both tails. */
  logSigmoid: unary("log_sigmoid", (x) => logSigmoid(x!)),
  /** `log(1 + exp(x))`; exactly `x` above 20. */
  softplus: unary("softplus", (x) => (x! > 20 ? x! : -logSigmoid(-x!))),
  /** The hyperbolic tangent of `x`. */
  tanh: unary("tanh", (x) => Math.tanh(x!)),
  /** `x` as a constant: no gradient flows through it. */
  detach: unary("detach", (x) => x!),

  /** Whether `x > y`. */
  gt: comparison("gt.Tensor", (x, y) => +(x! > y!)),
  /** Whether `x >= y`. */
  ge: comparison("ge.Tensor", (x, y) => +(x! >= y!)),
  /** Whether `x < y`. */
  lt: comparison("lt.Tensor", (x, y) => +(x! < y!)),
  /** Whether `x <= y`. */
  le: comparison("le.Tensor", (x, y) => +(x! <= y!)),
  /** Whether `x` and `y` are equal. */
  eq: comparison("eq.Tensor", (x, y) => +(x! === y!)),
  /** Whether `x` and `y` differ. */
  ne: comparison("ne.Tensor", (x, y) => +(x! !== y!)),

  /** Whether both are true. */
  and: connective("logical_and", (x, y) => +(x! !== 0 && y! !== 0)),
  /** Whether at least one is true. */
  or: connective("logical_or", (x, y) => +(x! !== 0 || y! !== 0)),
  /** The opposite. */
  not: row("negation")("logical_not", (x) => +(x! === 0)),
  /** The first value where the mask is true, else the second. */
  where: row("select")("where.self", (mask, x, y) => (mask! !== 0 ? x! : y!)),
  /** 1 where the mask is true, else 0. */
  indicator: structural("indicator", (x) => x!),

  /** The sum of each segment; 0 of an empty one. */
  sum: structural("reduction", (...values) => sum(values)),
  /** The mean of each segment; 0, with gradient 0, of an empty one. */
  mean: structural("reduction", (...values) => (values.length === 0 ? 0 : sum(values) / values.length)),
  /** The largest of each segment, ties sharing the gradient equally; `-Infinity` of an empty one. */
  max: structural("reduction", Math.max),
  /** The smallest of each segment, ties sharing the gradient equally; `Infinity` of an empty one. */
  min: structural("reduction", Math.min),
  /** `log(sum(exp(x)))` of each segment; `-Infinity` of an empty one. */
  logsumexp: structural("reduction", (...values) => {
    const largest = Math.max(...values);
    return Number.isFinite(largest)
      ? largest + Math.log(sum(values.map((x) => Math.exp(x - largest))))
      : largest;
  }),
  /** How many elements each segment has; of a mask, how many are true. */
  count: structural("count", (...values) => values.length),
  /** The k-th sample of each group, counted from 0. */
  member: structural("member", (...values) => values[values.at(-1)!]!),
} as const;

export type OpName = keyof typeof OPS;
