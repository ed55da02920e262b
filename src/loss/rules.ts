// What the op table cannot hold, since its types derive from it: how each op is differentiated, or of which others it
// is made. All in the language itself.
import { AXES, type Axis, type Kind } from "./graph.ts";
import type { OpName } from "./ops.ts";
import { type Mask, Symbolic, type Tensor } from "./tensor.ts";

/**
 * Numbers of any axis. In a rule all operands of an elementwise op vary over the same one, so that which it is does not
 * matter.
 */
type Numbers = Tensor<"token">;
type Truth = Mask<"token">;

/** The static side of the op that a rule is about. */
export interface RuleContext {
  readonly axis: Axis;
  readonly attributes: Readonly<Record<string, number>>;
}

/**
 * Cotangents of the operands, d loss / d operand, from that of the result, `g`. One on a coarser axis than its operand is
 * broadcast; operands without one get no gradient. Rules multiply by `g.scale` and divide by `g.unscale`: where a
 * cotangent is 0, nothing behind it can make it anything else.
 */
type Pullback = (
  g: Numbers,
  operands: readonly Numbers[],
  result: Numbers,
  context: RuleContext,
) => readonly (Numbers | undefined)[];

export type Rule =
  | { readonly kind: "primitive"; readonly pullback: Pullback }
  | {
      readonly kind: "composite";
      readonly expand: (operands: readonly Numbers[], context: RuleContext) => Symbolic;
    }
  /** No gradient flows through it: its result is a mask, a constant, or flat almost everywhere. */
  | { readonly kind: "flat" };

const flat: Rule = { kind: "flat" };
const primitive = (pullback: Pullback): Rule => ({ kind: "primitive", pullback });
const unary = (pullback: (g: Numbers, x: Numbers, y: Numbers) => Numbers) =>
  primitive((g, [x], y) => [pullback(g, x!, y)]);
const binary = (pullback: (g: Numbers, x: Numbers, y: Numbers, z: Numbers) => [Numbers, Numbers]) =>
  primitive((g, [x, y], z) => pullback(g, x!, y!, z));
const composite = (expand: (x: Numbers, context: RuleContext, y: Numbers) => Symbolic): Rule => ({
  kind: "composite",
  expand: ([x, y], context) => expand(x!, context, y!),
});

/** An op that programs have and the language does not. */
function internal(
  op: "members" | "argsort" | "scatter",
  like: Symbolic,
  inputs: readonly Symbolic[],
  axis: Axis,
  attributes: Readonly<Record<string, number>>,
): Numbers {
  const trace = Symbolic.traceOf(like)!;
  const kind: Kind = "number";
  const node = { op, inputs: inputs.map(Symbolic.indexOf), axis, kind, attributes };
  return new Symbolic(trace, trace.add(node)) as unknown as Numbers;
}

/** To the axis that a reduction goes to. */
const to = (axis: Axis) => axis as "sample";
const segmentOf = ({ attributes }: RuleContext) => to(AXES[attributes.within!]!);

/** The elements that equal the extreme of their segment share its cotangent. */
const extreme = primitive((g, [x], y, { axis }) => {
  const share = x!.eq(y).indicator();
  return [g.unscale(share.sum(to(axis)) as unknown as Numbers).scale(share)];
});
/** All of `g` where the first operand wins, half of it at a tie. */
const winner = (g: Numbers, wins: Truth, tie: Truth) => wins.where(g, tie.where(g.mul(0.5), 0));
const square = (x: Numbers) => x.square();

function logsumexp(x: Numbers, axis: Axis): Numbers {
  const largest = x.max(to(axis)).detach();
  // An infinite shift would make NaN of itself; exp(x) is right as it is there.
  const shift = largest.isFinite().where(largest, 0);
  return x.sub(shift).exp().sum(to(axis)).log().add(shift) as unknown as Numbers;
}

function variance(x: Numbers, { axis, attributes }: RuleContext): Numbers {
  const n = x.count(to(axis));
  const squares = square(x.sub(x.mean(to(axis)))).sum(to(axis));
  return squares.div(n.sub(attributes.correction!).maximum(1)) as unknown as Numbers;
}

function std(x: Numbers, context: RuleContext): Numbers {
  const squared = variance(x, context);
  // Also of NaN, which must stay NaN.
  const varies = squared.ne(0);
  return varies.where(varies.where(squared, 1).sqrt(), 0);
}

const RULES: Record<OpName | "spread" | "scatter", Rule> = {
  add: binary((g) => [g, g]),
  sub: binary((g) => [g, g.neg()]),
  mul: binary((g, x, y) => [g.scale(y), g.scale(x)]),
  div: binary((g, _x, y, z) => [g.unscale(y), g.unscale(y).scale(z).neg()]),
  // Where 0 has annihilated what is not finite, nothing depends on it.
  scale: binary((g, x, y) => [y.isFinite().or(x.ne(0)).where(g.scale(y), 0), g.scale(x)]),
  unscale: binary((g, x, y, z) => [
    y.ne(0).or(x.ne(0)).where(g.unscale(y), 0),
    x.ne(0).where(g.unscale(y).scale(z).neg(), 0),
  ]),
  minimum: binary((g, x, y) => [winner(g, x.lt(y), x.eq(y)), winner(g, y.lt(x), x.eq(y))]),
  maximum: binary((g, x, y) => [winner(g, x.gt(y), x.eq(y)), winner(g, y.gt(x), x.eq(y))]),
  // Inside, and at a bound, the value is what it was.
  clamp: primitive((g, [x, lower, upper], y) => [
    y.eq(x!).and(lower!.le(upper!)).where(g, 0),
    x!.lt(lower!).and(lower!.lt(upper!)).where(g, 0),
    x!.gt(upper!).or(lower!.gt(upper!)).where(g, 0),
  ]),
  pow: primitive((g, [x], _y, { attributes: { exponent } }) =>
    exponent === 0 ? [] : [g.scale(x!.pow(exponent! - 1).mul(exponent!))],
  ),

  neg: unary((g) => g.neg()),
  abs: unary((g, x) => g.scale(x.sign())),
  sign: flat,
  floor: flat,
  relu: composite((x) => x.le(0).where(0, x)),
  square: unary((g, x) => g.scale(x.mul(2))),
  sqrt: unary((g, _x, y) => g.unscale(y.mul(2))),
  exp: unary((g, _x, y) => g.scale(y)),
  log: unary((g, x) => g.unscale(x)),
  log1p: unary((g, x) => g.unscale(x.add(1))),
  expm1: unary((g, _x, y) => g.scale(y.add(1))),
  // Each branch is used on the side of -log 2 where it keeps its digits.
  log1mexp: composite((x) => x.gt(-Math.LN2).where(x.expm1().neg().log(), x.exp().neg().log1p())),
  // As in PyTorch, also where 1 - y has lost its digits: what lives in that tail wants logSigmoid.
  sigmoid: unary((g, _x, y) => g.scale(y.mul(y.neg().add(1)))),
  logSigmoid: unary((g, x) => g.scale(x.neg().sigmoid())),
  softplus: composite((x) => x.neg().logSigmoid().neg()),
  tanh: unary((g, _x, y) => g.sub(g.scale(square(y)))),
  erf: unary((g, x) =>
    g.scale(
      square(x)
        .neg()
        .exp()
        .mul(2 / Math.sqrt(Math.PI)),
    ),
  ),
  detach: flat,

  isFinite: flat,
  gt: flat,
  ge: flat,
  lt: flat,
  le: flat,
  eq: flat,
  ne: flat,
  and: flat,
  or: flat,
  not: flat,
  where: primitive((g, [mask]) => {
    const taken = mask as unknown as Truth;
    return [undefined, taken.where(g, 0), taken.where(0, g)];
  }),
  indicator: flat,

  sum: primitive((g) => [g]),
  mean: composite((x, { axis }) => x.sum(to(axis)).div(x.count(to(axis)).maximum(1))),
  max: extreme,
  min: extreme,
  logsumexp: composite((x, { axis }) => logsumexp(x, axis)),
  var: composite(variance),
  std: composite(std),
  count: flat,
  spread: primitive((g, [x]) => [g.sum(to(x!.axis)) as unknown as Numbers]),

  softmax: composite((x, context) => x.sub(logsumexp(x, segmentOf(context))).exp()),
  logSoftmax: composite((x, context) => x.sub(logsumexp(x, segmentOf(context)))),
  rank: flat,
  sort: composite((x, { axis, attributes }) => {
    const sortable = x as unknown as Tensor<"sample">;
    const sorted = internal("argsort", x, [x], axis, attributes) as unknown as Tensor<"sample">;
    return sortable.gather(sorted);
  }),
  topK: composite((x, context, k) => x.neg().rank(segmentOf(context)).lt(k)),
  // What a token adds to the sums after it comes back from them: the same sum, run the other way.
  cumsum: primitive((g, _operands, _y, { attributes: { reverse, exclusive, discount } }) => [
    g.cumsum({ reverse: reverse === 0, exclusive: exclusive === 1, discount: discount! }),
  ]),
  shift: primitive((g, _operands, _y, { attributes: { offset } }) => [g.shift(-offset!)]),

  member: composite((x, { attributes }) => {
    const numbers = internal("members", x, [], "group", attributes) as unknown as Tensor<"group">;
    return (x as unknown as Tensor<"sample">).gather(numbers);
  }),
  gather: primitive((g, [x, index]) => [internal("scatter", g, [g, index!], x!.axis, {})]),
  scatter: primitive((g, [, index]) => [
    (g as unknown as Tensor<"sample">).gather(index as unknown as Tensor<"sample">) as unknown as Numbers,
  ]),
};

/** The rule of a node's op; structural ops without operands are flat. */
export const ruleOf = (op: string): Rule => RULES[op as OpName] ?? flat;
