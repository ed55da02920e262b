// The addon without its TypeScript side, for processes and threads that must start fast and die in odd moments.
import { createRequire } from "node:module";

/** @import { Binding, NativeEngine, NativeProgramSpec, NativeRequest } from "../../src/engine/binding.ts" */

export const binding = /** @type {Binding} */ (
  createRequire(import.meta.url)("../../build/Release/tokengrad.node")
);

/**
 * `depth` sigmoids, one on the other, and their mean over the batch.
 * @param {number} depth
 * @returns {NativeProgramSpec}
 */
export function chain(depth) {
  const common = { attributes: {}, kind: /** @type {const} */ ("number") };
  const sigmoids = Array.from({ length: depth }, (_, i) => ({
    ...common,
    op: "sigmoid",
    aten: "sigmoid",
    inputs: [i],
    axis: /** @type {const} */ ("token"),
  }));
  return {
    nodes: [
      { ...common, op: "input", inputs: [], axis: "token" },
      ...sigmoids,
      { ...common, op: "mean", inputs: [depth], axis: "batch" },
    ],
    inputs: [0],
    variable: 0,
    loss: depth + 1,
    metrics: [],
  };
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
});

export const newEngine = (threads = 2) => new binding.Engine({ device: "cpu", threads });

/**
 * Starts a run that takes some hundred milliseconds.
 * @param {NativeEngine} engine
 */
export const longRun = (engine) => engine.run(binding.compile(chain(60)), request(1 << 20));
