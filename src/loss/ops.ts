// The op table. An op of the language is one row here; methods, types, the executors' programs and tests are derived
// from it. How each is differentiated, or made of others, stands beside it in rules.ts.
import type { Kind } from "./graph.ts";

/**
 * How an op is called: the kinds of its operands and result, and how its axis follows from theirs. `finest`: that of the
 * finest operand; `coarser`: one that the call names; `within`: its own, computed in each segment of a coarser one that
 * the call names; `token`: tokens only, computed in each sample; `group`: from samples to groups; `index`: that of the
 * second operand.
 */
export const SIGNATURES = {
  unary: { operands: ["number"], result: "number", axis: "finest" },
  binary: { operands: ["number", "number"], result: "number", axis: "finest" },
  clamp: { operands: ["number", "number", "number"], result: "number", axis: "finest" },
  power: { operands: ["number"], result: "number", axis: "finest" },
  predicate: { operands: ["number"], result: "mask", axis: "finest" },
  comparison: { operands: ["number", "number"], result: "mask", axis: "finest" },
  connective: { operands: ["mask", "mask"], result: "mask", axis: "finest" },
  negation: { operands: ["mask"], result: "mask", axis: "finest" },
  select: { operands: ["mask", "number", "number"], result: "number", axis: "finest" },
  indicator: { operands: ["mask"], result: "number", axis: "finest" },
  reduction: { operands: ["number"], result: "number", axis: "coarser" },
  statistic: { operands: ["number"], result: "number", axis: "coarser" },
  count: { operands: ["any"], result: "number", axis: "coarser" },
  normalization: { operands: ["number"], result: "number", axis: "within" },
  order: { operands: ["number"], result: "number", axis: "within" },
  top: { operands: ["number", "number"], result: "mask", axis: "within" },
  scan: { operands: ["number"], result: "number", axis: "token" },
  shift: { operands: ["number"], result: "number", axis: "token" },
  member: { operands: ["number"], result: "number", axis: "group" },
  gather: { operands: ["number", "number"], result: "number", axis: "index" },
} as const satisfies Record<
  string,
  {
    operands: readonly (Kind | "any")[];
    result: Kind;
    axis: "finest" | "coarser" | "within" | "token" | "group" | "index";
  }
>;

export type SignatureName = keyof typeof SIGNATURES;
type Along = "normalization" | "order" | "top" | "scan" | "shift";

/**
 * An op in plain numbers: operands in order, then the static number if there is one. A mask is 1 or 0. A reduction takes
 * the members of one segment and gives a number; an op along a segment takes and gives all its members.
 */
export type Reference<S extends SignatureName = SignatureName> = S extends Along
  ? (values: readonly number[], attributes: Readonly<Record<string, number>>) => number[]
  : (...values: number[]) => number;

export interface OpRow<S extends SignatureName = SignatureName> {
  readonly signature: S;
  readonly reference: Reference<S>;
  /** The ATen operator, with its overload, of an elementwise op; absent where executors have a rule of their own. */
  readonly aten?: string;
}

const row =
  <S extends SignatureName>(signature: S) =>
  (reference: Reference<S>, aten?: string): OpRow<S> => ({
    signature,
    reference,
    ...(aten !== undefined && { aten }),
  });

const unary = row("unary");
const binary = row("binary");
const comparison = row("comparison");
const connective = row("connective");
const reduction = row("reduction");
const statistic = row("statistic");
const normalization = row("normalization");
const order = row("order");

const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);
const logSigmoid = (x: number) => Math.min(x, 0) - Math.log1p(Math.exp(-Math.abs(x)));
const log1mexp = (x: number) => (x > -Math.LN2 ? Math.log(-Math.expm1(x)) : Math.log1p(-Math.exp(x)));
const logsumexp = (values: readonly number[]): number => {
  const largest = Math.max(...values);
  return Number.isFinite(largest)
    ? largest + Math.log(sum(values.map((x) => Math.exp(x - largest))))
    : largest;
};
const variance = (values: readonly number[], correction: number): number => {
  const mean = sum(values) / values.length;
  return values.length < 2
    ? 0
    : sum(values.map((x) => (x - mean) ** 2)) / Math.max(values.length - correction, 1);
};
/** `erf` by its Taylor series, where that converges fast, or the continued fraction of its complement. */
const erf = (x: number): number => {
  if (Math.abs(x) > 3) {
    let fraction = 0;
    for (let k = 60; k > 0; k--) fraction = k / 2 / (Math.abs(x) + fraction);
    const complement = Math.exp(-x * x) / ((Math.abs(x) + fraction) * Math.sqrt(Math.PI));
    return Math.sign(x) * (1 - complement);
  }
  let term = x;
  let total = x;
  for (let n = 1; n < 100; n++) {
    term *= (-x * x) / n;
    total += term / (2 * n + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * total;
};
const ranks = (values: readonly number[]): number[] => {
  const places = values.map((_, i) => i).sort((a, b) => values[a]! - values[b]! || a - b);
  return values.map((_, i) => places.indexOf(i));
};

export const OPS = {
  /** `x + y`. */
  add: binary((x, y) => x! + y!, "add.Tensor"),
  /** `x - y`. */
  sub: binary((x, y) => x! - y!, "sub.Tensor"),
  /** `x * y`. */
  mul: binary((x, y) => x! * y!, "mul.Tensor"),
  /** `x / y`. */
  div: binary((x, y) => x! / y!, "div.Tensor"),
  /** `x * y`, but 0 wherever `x` is 0, even if `y` is infinite or NaN there: a mask that lets nothing through. */
  scale: binary((x, y) => (x === 0 ? 0 : x! * y!)),
  /** `x / y`, but 0 wherever `x` is 0, even if `y` is 0 or NaN there. */
  unscale: binary((x, y) => (x === 0 ? 0 : x! / y!)),
  /** The smaller of two; at a tie each gets half of the gradient. */
  minimum: binary(Math.min, "minimum"),
  /** The larger of two; at a tie each gets half of the gradient. */
  maximum: binary(Math.max, "maximum"),
  /** `x` held between a lower and an upper bound; the gradient is 1 inside and at a bound, 0 outside. */
  clamp: row("clamp")((x, lower, upper) => Math.min(Math.max(x!, lower!), upper!), "clamp.Tensor"),
  /** `x` to the power of a plain number. */
  pow: row("power")((x, exponent) => x! ** exponent!, "pow.Tensor_Scalar"),

  /** `-x`. */
  neg: unary((x) => -x!, "neg"),
  /** `|x|`; the gradient at 0 is 0. */
  abs: unary((x) => Math.abs(x!), "abs"),
  /** -1, 0 or 1; the gradient is 0. */
  sign: unary((x) => Math.sign(x!), "sign"),
  /** The largest whole number that is not above `x`; the gradient is 0. */
  floor: unary((x) => Math.floor(x!), "floor"),
  /** `x` where it is above 0, else 0; the gradient at 0 is 0. */
  relu: unary((x) => Math.max(x!, 0)),
  /** `x * x`. */
  square: unary((x) => x! * x!, "square"),
  /** The square root of `x`. */
  sqrt: unary((x) => Math.sqrt(x!), "sqrt"),
  /** `e` to the power of `x`. */
  exp: unary((x) => Math.exp(x!), "exp"),
  /** The natural logarithm of `x`. */
  log: unary((x) => Math.log(x!), "log"),
  /** `log(1 + x)`, exact for small `x`. */
  log1p: unary((x) => Math.log1p(x!), "log1p"),
  /** `exp(x) - 1`, exact for small `x`. */
  expm1: unary((x) => Math.expm1(x!), "expm1"),
  /** `log(1 - exp(x))` of `x < 0`, exact in both tails: the log-probability of what has not happened. */
  log1mexp: unary((x) => log1mexp(x!)),
  /** `1 / (1 + exp(-x))`. */
  sigmoid: unary((x) => 1 / (1 + Math.exp(-x!)), "sigmoid"),
  /** `log(sigmoid(x))`, exact in both tails. */
  logSigmoid: unary((x) => logSigmoid(x!), "log_sigmoid"),
  /** `log(1 + exp(x))`, exact in both tails. */
  softplus: unary((x) => -logSigmoid(-x!)),
  /** The hyperbolic tangent of `x`. */
  tanh: unary((x) => Math.tanh(x!), "tanh"),
  /** The error function of `x`. */
  erf: unary((x) => erf(x!), "erf"),
  /** `x` as a constant: no gradient flows through it. */
  detach: unary((x) => x!, "detach"),

  /** Whether `x` is neither infinite nor NaN. */
  isFinite: row("predicate")((x) => +Number.isFinite(x), "isfinite"),
  /** Whether `x > y`. */
  gt: comparison((x, y) => +(x! > y!), "gt.Tensor"),
  /** Whether `x >= y`. */
  ge: comparison((x, y) => +(x! >= y!), "ge.Tensor"),
  /** Whether `x < y`. */
  lt: comparison((x, y) => +(x! < y!), "lt.Tensor"),
  /** Whether `x <= y`. */
  le: comparison((x, y) => +(x! <= y!), "le.Tensor"),
  /** Whether `x` and `y` are equal. */
  eq: comparison((x, y) => +(x! === y!), "eq.Tensor"),
  /** Whether `x` and `y` differ. */
  ne: comparison((x, y) => +(x! !== y!), "ne.Tensor"),

  /** Whether both are true. */
  and: connective((x, y) => +(x! !== 0 && y! !== 0), "logical_and"),
  /** Whether at least one is true. */
  or: connective((x, y) => +(x! !== 0 || y! !== 0), "logical_or"),
  /** The opposite. */
  not: row("negation")((x) => +(x! === 0), "logical_not"),
  /** The first value where the mask is true, else the second. What is not taken passes nothing on, not even NaN. */
  where: row("select")((mask, x, y) => (mask! !== 0 ? x! : y!), "where.self"),
  /** 1 where the mask is true, else 0. */
  indicator: row("indicator")((x) => x!),

  /** The sum of each segment; 0 of an empty one. */
  sum: reduction((...values) => sum(values)),
  /** The mean of each segment; 0, with gradient 0, of an empty one. */
  mean: reduction((...values) => (values.length === 0 ? 0 : sum(values) / values.length)),
  /** The largest of each segment, ties sharing the gradient equally; `-Infinity` of an empty one. */
  max: reduction(Math.max),
  /** The smallest of each segment, ties sharing the gradient equally; `Infinity` of an empty one. */
  min: reduction(Math.min),
  /** `log(sum(exp(x)))` of each segment; `-Infinity` of an empty one. */
  logsumexp: reduction((...values) => logsumexp(values)),
  /**
   * The variance of each segment: of the population, or with `correction: 1` estimated from a sample (divided by n - 1).
   * 0, with gradient 0, of fewer than two.
   */
  var: statistic((...values) => variance(values.slice(0, -1), values.at(-1)!)),
  /** The square root of `var`; where that is 0, so is the gradient. */
  std: statistic((...values) => Math.sqrt(variance(values.slice(0, -1), values.at(-1)!))),
  /** How many elements each segment has; of a mask, how many are true. */
  count: row("count")((...values) => values.length),

  /** `exp(x)` over its sum in each segment. */
  softmax: normalization((values) => values.map((x) => Math.exp(x - logsumexp(values)))),
  /** The logarithm of `softmax`. */
  logSoftmax: normalization((values) => values.map((x) => x - logsumexp(values))),
  /** The place, from 0, of each element in the ascending order of its segment; equal ones in their own order. No gradient. */
  rank: normalization(ranks),
  /** The values of each segment in ascending order; equal ones in their own order, gradients follow the values. */
  sort: order((values) => [...values].sort((a, b) => a - b)),
  /** Whether an element is among the `k` largest of its segment; of equal ones, the earlier. */
  topK: row("top")((values, { k }) => ranks(values.map((x) => -x)).map((rank) => +(rank < k!))),

  /**
   * Running sums along each sample: `y[t] = x[t] + discount * y[t - 1]`. `reverse` runs from the end; `exclusive` gives
   * `discount * y[t - 1]`, what came before.
   */
  cumsum: row("scan")((values, { reverse, exclusive, discount }) => {
    let total = 0;
    const sums = (reverse ? [...values].reverse() : values).map((x) => {
      const before = discount! * total;
      total = before + x;
      return exclusive ? before : total;
    });
    return reverse ? sums.reverse() : sums;
  }),
  /** The value of the token `offset` places before, in the same sample; 0 where there is none. */
  shift: row("shift")((values, { offset }) => values.map((_, t) => values[t - offset!] ?? 0)),

  /** The k-th sample of each group, counted from 0. */
  member: row("member")((...values) => values[values.at(-1)!]!),
  /** The elements with the numbers that `index` holds, counted from 0 over the batch; any may be taken more than once. */
  gather: row("gather")((...values) => values[values.at(-1)!]!),
} as const;

export type OpName = keyof typeof OPS;
