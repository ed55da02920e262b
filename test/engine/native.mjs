// The addon without its TypeScript side, for processes and threads that must start fast and die in odd moments.
import { createRequire } from "node:module";

export const binding = createRequire(import.meta.url)("../../build/Release/tokengrad.node");

const node = (op, inputs, axis, extra = {}) => ({
  op,
  inputs,
  attributes: {},
  axis,
  kind: "number",
  ...extra,
});

/** `depth` sigmoids, one on the other, and their mean over the batch. */
export function chain(depth) {
  const nodes = [node("input", [], "token")];
  for (let i = 0; i < depth; i++) nodes.push(node("sigmoid", [i], "token", { aten: "sigmoid" }));
  nodes.push(node("mean", [depth], "batch"));
  return { nodes, inputs: [0], variable: 0, loss: depth + 1, metrics: [] };
}

/** One sample, all of its tokens trained. */
export function request(tokens) {
  return {
    rowLengths: Uint32Array.of(tokens),
    runCounts: Uint32Array.of(1),
    runs: Uint32Array.of(0, tokens),
    groupSizes: Uint32Array.of(1),
    inputs: [new Float32Array(tokens).fill(-1)],
    precision: "float32",
    output: new ArrayBuffer(4 * tokens),
    dtype: "float32",
  };
}

export const newEngine = (threads = 2) => new binding.Engine({ device: "cpu", threads });

/** Starts a run that takes some hundred milliseconds. */
export const longRun = (engine) => engine.run(binding.compile(chain(60)), request(1 << 20));
