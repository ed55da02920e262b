// The addon without its TypeScript side, for processes and threads that must start fast and die in odd moments.
import { createRequire } from "node:module";

/** @import { Binding, NativeEngine, NativeProgramSpec, NativeRequest } from "../../src/engine/binding.ts" */

export const binding = /** @type {Binding} */ (
  createRequire(import.meta.url)("../../build/Release/tokengrad.node")
);

/**
 * `depth` sigmoids, one on the other, their mean over the batch, and its gradient.
 * @param {number} depth
 * @returns {NativeProgramSpec}
 */
export function chain(depth) {
  /** @type {NativeProgramSpec["nodes"][number][]} */
  const nodes = [];
  /** @typedef {import("../../src/loss/graph.ts").Axis} Axis */
  const add = (
    /** @type {string} */ op,
    /** @type {number[]} */ inputs,
    /** @type {Axis} */ axis,
    rest = {},
  ) => nodes.push({ op, inputs, axis, attributes: {}, kind: "number", ...rest }) - 1;
  let level = add("input", [], "token");
  for (let i = 0; i < depth; i++) level = add("sigmoid", [level], "token", { aten: "sigmoid" });
  const sum = add("sum", [depth], "batch");
  const count = add("count", [depth], "batch");
  const loss = add("div", [sum, count], "batch", { aten: "div.Tensor" });
  const forward = nodes.length;
  const one = add("constant", [], "batch", { attributes: { value: 1 } });
  const ones = add("spread", [one], "token");
  const share = add("div", [one, count], "batch", { aten: "div.Tensor" });
  let gradient = add("spread", [share], "token");
  for (level = depth; level > 0; level--) {
    const rest = add("sub", [ones, level], "token", { aten: "sub.Tensor" });
    const slope = add("mul", [level, rest], "token", { aten: "mul.Tensor" });
    gradient = add("scale", [gradient, slope], "token");
  }
  return { nodes, inputs: [0], variable: 0, loss, metrics: [], gradient, forward, outputs: [] };
}

/**
 * One sample, all of its tokens trained.
 * @param {number} tokens
 * @returns {NativeRequest}
 */
export const request = (tokens) => ({
  rowLengths: Uint32Array.of(tokens),
  runCounts: Uint32Array.of(1),
  runs: Uint32Array.of(0, tokens),
  groupSizes: Uint32Array.of(1),
  inputs: [new Float32Array(tokens).fill(-1)],
  precision: "float32",
  output: new ArrayBuffer(4 * tokens),
  dtype: "float32",
  outputs: [],
  executor: "torch",
});

export const newEngine = (threads = 2) => new binding.Engine({ device: "cpu", threads });

/**
 * Starts a run that takes about a hundred milliseconds.
 * @param {NativeEngine} engine
 */
export const longRun = (engine) => engine.run(binding.compile(chain(60)), request(1 << 20));
