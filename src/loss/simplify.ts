// Makes programs smaller: a node that is about to be added may be known already in a simpler form. No rule changes a
// finite result by more than rounding.
import { fineness, finest } from "./axes.ts";
import { moveFactors } from "./factors.ts";
import type { Axis } from "./graph.ts";
import { constantOf, isPositive, isTame } from "./knowledge.ts";
import { OPS, type OpName, type OpRow, SIGNATURES } from "./ops.ts";
import type { NewNode, Simplify, Trace } from "./trace.ts";

const isElementwise = (op: string) =>
  op in OPS && SIGNATURES[(OPS[op as OpName] as OpRow).signature].axis === "finest";

/** An elementwise op of nothing but constants is one. */
function fold(trace: Trace, { op, inputs, axis, kind, attributes }: NewNode): number | undefined {
  if (kind !== "number") return undefined;
  const values = inputs.map((input) => constantOf(trace, input));
  if (!values.every((value) => value !== undefined)) return undefined;
  const { reference } = OPS[op as OpName] as OpRow<"binary">;
  return trace.spread(trace.constant(reference(...values, ...Object.values(attributes))), axis);
}

/** An elementwise op of nothing but broadcasts is a broadcast: it is computed on the coarser axis. */
function hoist(trace: Trace, node: NewNode): number | undefined {
  const broadcasts = node.inputs.map((input) => trace.node(input));
  if (node.inputs.length === 0 || !broadcasts.every(({ op }) => op === "spread")) return undefined;
  const sources = broadcasts.map(({ inputs }) => inputs[0]!);
  const axis: Axis = finest(sources.map((source) => trace.node(source).axis));
  const inputs = sources.map((source) => trace.spread(source, axis));
  return trace.spread(trace.add({ ...node, inputs, axis }), node.axis);
}

/** Whether a mask compares constants of which it is true. */
function isTrue(trace: Trace, index: number): boolean {
  const { op, inputs } = trace.node(index);
  if (op === "spread") return isTrue(trace, inputs[0]!);
  const [x, y] = inputs.map((input) => constantOf(trace, input));
  if (x === undefined || y === undefined) return false;
  return SIGNATURES[OPS[op as OpName].signature] === SIGNATURES.comparison && compare(op, x, y);
}

const compare = (op: string, x: number, y: number) => (OPS[op as "lt"].reference(x, y) as number) === 1;

/** Products, quotients and selections that are one of their operands. */
function identity(trace: Trace, { op, inputs }: NewNode): number | undefined {
  const [x, y, z] = inputs as [number, number, number];
  const is = (index: number, value: number) => constantOf(trace, index) === value;
  switch (op) {
    case "mul":
      return is(x, 1) ? y : is(y, 1) ? x : undefined;
    case "scale":
      return is(x, 1) ? y : is(y, 1) || is(x, 0) ? x : undefined;
    case "div":
      return is(y, 1) ? x : undefined;
    case "unscale":
      return is(y, 1) || is(x, 0) ? x : undefined;
    case "where":
      return y === z ? y : undefined;
    case "and":
      return isTrue(trace, y) ? x : isTrue(trace, x) ? y : undefined;
    case "neg":
      return trace.node(x).op === "neg" ? trace.node(x).inputs[0] : undefined;
    default:
      return undefined;
  }
}

/** The cheaper op that does the same. */
function cheaper(trace: Trace, node: NewNode): number | undefined {
  const { op, inputs, axis, attributes } = node;
  const [x, y] = inputs as [number, number];
  const as = (name: OpName, operands: readonly number[]) =>
    trace.add({ ...node, op: name, inputs: operands, attributes: {} });
  if (op === "scale" && isTame(trace, y)) return as("mul", inputs);
  if (op === "unscale" && isPositive(trace, y)) return as("div", inputs);
  if (op === "mul" && constantOf(trace, y) === -1) return as("neg", [x]);
  if (op === "mul" && constantOf(trace, x) === -1) return as("neg", [y]);
  if (op === "pow" && attributes.exponent === 0) return trace.spread(trace.constant(1), axis);
  if (op === "pow" && attributes.exponent === 1) return x;
  if (op === "pow" && attributes.exponent === 2) return as("square", [x]);
  if (op === "pow" && attributes.exponent === 0.5) return as("sqrt", [x]);
  // A broadcast of a broadcast goes all the way at once.
  if (op === "spread" && trace.node(x).op === "spread") return trace.spread(trace.node(x).inputs[0]!, axis);
  return undefined;
}

/** Of each trace: the first node that counts the elements of an axis in the segments of another. */
const counts = new WeakMap<Trace, Map<string, number>>();

/** How many elements segments have is the same whatever is counted: an input, so that nothing is computed for it. */
function knownCount(trace: Trace, node: NewNode): number | undefined {
  const { op, inputs, axis } = node;
  const counted = op === "count" ? trace.node(inputs[0]!) : undefined;
  if (counted?.kind !== "number" || counted.op === "input") return undefined;
  const input = trace.inputOver(counted.axis);
  if (input !== undefined) return trace.add({ ...node, inputs: [input] });
  let known = counts.get(trace);
  if (known === undefined) {
    known = new Map();
    counts.set(trace, known);
  }
  const key = `${counted.axis} ${axis}`;
  const first = known.get(key);
  // The node about to be added, if it is the first, will have the next index.
  if (first === undefined) known.set(key, trace.size);
  return first;
}

export const simplify: Simplify = (trace, node) => {
  if (node.op === "spread" && fineness(trace.node(node.inputs[0]!).axis) >= fineness(node.axis))
    return node.inputs[0];
  const elementwise = isElementwise(node.op);
  return (
    (elementwise ? (fold(trace, node) ?? identity(trace, node)) : undefined) ??
    cheaper(trace, node) ??
    moveFactors(trace, node) ??
    knownCount(trace, node) ??
    (elementwise ? hoist(trace, node) : undefined)
  );
};
