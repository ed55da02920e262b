// What is known of a node's values before anything is computed.
import type { Trace } from "./trace.ts";

/** The number that a node holds wherever it is, if it is a constant or one broadcast. */
export function constantOf(trace: Trace, index: number): number | undefined {
  const { op, inputs, attributes } = trace.node(index);
  if (op === "constant") return attributes.value;
  return op === "spread" ? constantOf(trace, inputs[0]!) : undefined;
}

/**
 * Ops whose results are finite where their operands are. Sums, products and exponentials may overflow; the extremes of an
 * empty segment are infinite.
 */
const TAME = new Set(
  "neg abs sign floor sigmoid logSigmoid tanh erf minimum maximum clamp detach spread indicator rank shift".split(
    " ",
  ),
);

/** Whether a node cannot hold an infinity or NaN: inputs are checked when a batch is made. */
export function isTame(trace: Trace, index: number): boolean {
  const { op, inputs, kind } = trace.node(index);
  const value = constantOf(trace, index);
  if (value !== undefined) return Number.isFinite(value);
  if (kind === "mask" || op === "input" || op === "count") return true;
  if (op === "div") return isTame(trace, inputs[0]!) && isAtLeastOne(trace, inputs[1]!);
  // Sums of float32 numbers are float64: they cannot overflow.
  if (op === "sum") return trace.node(inputs[0]!).axis === "token" && isTame(trace, inputs[0]!);
  if (op === "where") return inputs.slice(1).every((input) => isTame(trace, input));
  return TAME.has(op) && inputs.every((input) => isTame(trace, input));
}

/** Whether a node cannot be NaN or anything but what a bound holds it to: a constant, or what is finite and held above one. */
function isHeld(trace: Trace, index: number, holds: (bound: number) => boolean): boolean {
  const value = constantOf(trace, index);
  if (value !== undefined) return holds(value);
  const { op, inputs } = trace.node(index);
  if (op === "spread") return isHeld(trace, inputs[0]!, holds);
  return op === "maximum" && isTame(trace, index) && inputs.some((input) => isHeld(trace, input, holds));
}

/** Whether a node cannot be below 1, or NaN. */
export const isAtLeastOne = (trace: Trace, index: number): boolean =>
  isHeld(trace, index, (bound) => bound >= 1);

/** Whether a node cannot be 0 or below, or NaN. */
export const isPositive = (trace: Trace, index: number): boolean =>
  isHeld(trace, index, (bound) => bound > 0);

/** Ops whose results are hardly larger than their operands. */
const MEEK = new Set(
  "neg add sub abs sign floor sigmoid tanh erf minimum maximum clamp detach spread indicator shift".split(
    " ",
  ),
);

/** Constants from here on are not about as large as inputs are. */
const LARGE = 1e4;

/** Whether a node is about as large as the inputs are, so that a product of a few such does not overflow. */
export function isModest(trace: Trace, index: number): boolean {
  const { op, inputs, kind } = trace.node(index);
  const value = constantOf(trace, index);
  if (value !== undefined) return Math.abs(value) < LARGE;
  return (
    kind === "mask" || op === "input" || (MEEK.has(op) && inputs.every((input) => isModest(trace, input)))
  );
}
