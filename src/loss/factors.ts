// Moves signs and factors that many tokens share to where there are fewer of them. Shared factors are multiplied with each
// other first only before what is about as large as the inputs; other factors change places only with the weights. So
// nothing of ordinary size overflows or vanishes that did not before.
import { fineness } from "./axes.ts";
import type { Axis } from "./graph.ts";
import { constantOf, isAtLeastOne, isModest, isTame } from "./knowledge.ts";
import type { NewNode, Trace } from "./trace.ts";

/** A product whose one factor is a broadcast: the other factor, and what is broadcast. */
interface Shared {
  readonly core: number;
  readonly factor: number;
}

/** Sees a node as such a product; what is negated is one with -1. */
function sharedOf(trace: Trace, index: number): Shared | undefined {
  const { op, inputs } = trace.node(index);
  if (op === "neg") return { core: inputs[0]!, factor: trace.constant(-1) };
  if (op !== "mul") return undefined;
  const place = [1, 0].find((at) => trace.node(inputs[at]!).op === "spread");
  if (place === undefined) return undefined;
  return { core: inputs[1 - place]!, factor: trace.node(inputs[place]!).inputs[0]! };
}

const isSpread = (trace: Trace, index: number) => trace.node(index).op === "spread";
const numbers = (trace: Trace, op: string, inputs: readonly number[], axis: Axis): number =>
  trace.add({ op, inputs, axis, kind: "number", attributes: {} });

/** The product of what two broadcasts broadcast, broadcast. */
function timesShared(trace: Trace, a: number, b: number, axis: Axis): number {
  const finer = fineness(trace.node(a).axis) > fineness(trace.node(b).axis) ? a : b;
  const own = trace.node(finer).axis;
  const product = numbers(trace, "mul", [trace.spread(a, own), trace.spread(b, own)], own);
  return trace.spread(product, axis);
}

/** Products: broadcast factors are multiplied with each other first, and stand last. */
function joinFactors(trace: Trace, { op, inputs, axis }: NewNode): number | undefined {
  if (op === "neg") {
    const x = sharedOf(trace, inputs[0]!);
    return x && numbers(trace, "mul", [x.core, timesShared(trace, x.factor, trace.constant(-1), axis)], axis);
  }
  if (op === "scale") return joinConstants(trace, inputs, axis);
  if (op !== "mul") return undefined;
  for (const [x, y] of [inputs, [inputs[1], inputs[0]]] as [number, number][]) {
    const shared = isSpread(trace, x) ? undefined : sharedOf(trace, x);
    if (shared === undefined || !isModest(trace, shared.core)) continue;
    if (isSpread(trace, y)) {
      const factor = timesShared(trace, shared.factor, trace.node(y).inputs[0]!, axis);
      return numbers(trace, "mul", [shared.core, factor], axis);
    }
    if (![y, shared.core].some((index) => trace.isInput(index, "weights"))) continue;
    const core = numbers(trace, "mul", x === inputs[0] ? [shared.core, y] : [y, shared.core], axis);
    return numbers(trace, "mul", [core, trace.spread(shared.factor, axis)], axis);
  }
  return undefined;
}

/** A cotangent times a multiple of something: the multiple of the cotangent, whose factor may be shared already. */
function joinConstants(trace: Trace, [g, x]: readonly number[], axis: Axis): number | undefined {
  const shared = sharedOf(trace, x!);
  const value = shared && constantOf(trace, shared.factor);
  if (shared === undefined || value === undefined || value === 0 || !isModest(trace, shared.factor))
    return undefined;
  const multiple = numbers(trace, "mul", [g!, trace.spread(shared.factor, axis)], axis);
  return numbers(trace, "scale", [multiple, shared.core], axis);
}

/** Additions of what is negated, which are subtractions, and the other way round. */
function unsign(trace: Trace, node: NewNode): number | undefined {
  const { op, inputs } = node;
  const [x, y] = inputs as [number, number];
  const negated = (index: number) =>
    trace.node(index).op === "neg" ? trace.node(index).inputs[0] : undefined;
  const as = (name: "add" | "sub", a: number, b: number) => trace.add({ ...node, op: name, inputs: [a, b] });
  if (op !== "add" && op !== "sub") return undefined;
  const [minusX, minusY] = [negated(x), negated(y)];
  if (minusY !== undefined) return as(op === "add" ? "sub" : "add", x, minusY);
  return op === "add" && minusX !== undefined ? as("sub", y, minusX) : undefined;
}

const sumOf = (trace: Trace, index: number, axis: Axis) => numbers(trace, "sum", [index], axis);

/** A sum of values with a common factor: the factor comes behind the sum, where there are fewer. */
function factorOut(trace: Trace, node: NewNode): number | undefined {
  if (node.op !== "sum") return undefined;
  const { op, inputs } = trace.node(node.inputs[0]!);
  if (op === "neg") return trace.add({ ...node, op: "neg", inputs: [sumOf(trace, inputs[0]!, node.axis)] });
  if (op !== "mul" && op !== "div") return undefined;
  const places = op === "mul" ? [1, 0] : [1];
  const place = places.find((at) => {
    const factor = inputs[at]!;
    // Only what is finite, and as a divisor not 0: a sum of nothing must stay 0.
    const harmless = op === "mul" ? isTame(trace, factor) : isAtLeastOne(trace, factor);
    return trace.node(factor).op === "spread" && harmless;
  });
  if (place === undefined) return undefined;
  const factor = trace.node(inputs[place]!).inputs[0]!;
  const own = trace.node(factor).axis;
  // A factor that varies over a finer axis than the sum goes to is common to a part of it.
  const axis = fineness(own) > fineness(node.axis) ? own : node.axis;
  const sum = sumOf(trace, inputs[1 - place]!, axis);
  const product = trace.add({ ...node, op, axis, inputs: [sum, trace.spread(factor, axis)] });
  return axis === node.axis ? product : sumOf(trace, product, node.axis);
}

/** The node that does the same with its signs and factors moved, if that helps. */
export const moveFactors = (trace: Trace, node: NewNode): number | undefined =>
  unsign(trace, node) ?? factorOut(trace, node) ?? joinFactors(trace, node);
