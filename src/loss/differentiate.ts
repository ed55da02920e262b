// Reverse-mode differentiation, from graph to graph.
import { ruleOf } from "./rules.ts";
import { Symbolic, type Tensor } from "./tensor.ts";
import type { Trace } from "./trace.ts";

type Numbers = Tensor<"token">;

/**
 * Adds to a trace the nodes of d y / d x for each `x` of `wrt`, over the axis of `x`; undefined where no gradient flows.
 * `y` is a number of axis `batch`, all ops behind it are primitive.
 */
export function differentiate(trace: Trace, y: number, wrt: readonly number[]): (number | undefined)[] {
  const tensor = (index: number) => new Symbolic(trace, index) as unknown as Numbers;
  const cotangents = new Map<number, Numbers>([[y, tensor(trace.constant(1))]]);

  // Only what a variable leads to by way of ops that pass a gradient needs a cotangent.
  const active = new Set(wrt);
  for (let index = 0; index <= y; index++) {
    const { op, inputs, kind } = trace.node(index);
    const passes = kind === "number" && ruleOf(op).kind === "primitive";
    if (passes && inputs.some((input) => active.has(input))) active.add(index);
  }

  for (let index = y; index >= 0; index--) {
    const cotangent = cotangents.get(index);
    const { op, inputs, axis, attributes, source, origin } = trace.node(index);
    const rule = ruleOf(op);
    if (cotangent === undefined || !active.has(index) || rule.kind !== "primitive") continue;
    trace.origin = { index: origin, source };
    const pulled = rule.pullback(cotangent, inputs.map(tensor), tensor(index), { axis, attributes });
    inputs.forEach((input, place) => {
      const part = pulled[place];
      if (part === undefined || !active.has(input)) return;
      const full = tensor(trace.spread(Symbolic.indexOf(part), trace.node(input).axis));
      const before = cotangents.get(input);
      cotangents.set(input, before === undefined ? full : before.add(full));
    });
  }
  trace.origin = undefined;
  return wrt.map((index) => {
    const cotangent = cotangents.get(index);
    return cotangent === undefined ? undefined : Symbolic.indexOf(cotangent);
  });
}
