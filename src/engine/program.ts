// Turns a traced loss into the program that the addon runs.
import type { Loss } from "../loss/define.ts";
import type { Graph } from "../loss/graph.ts";
import { OPS, type OpName, type OpRow } from "../loss/ops.ts";
import { loadBinding, type NativeProgram, type NativeProgramSpec } from "./binding.ts";
import { typedError } from "./errors.ts";

/** The addon's form of a graph: each op by its ATen operator, where it has one. */
function specOf(graph: Graph): NativeProgramSpec {
  return {
    nodes: graph.nodes.map(({ op, inputs, attributes, axis, kind }) => {
      const aten = (OPS[op as OpName] as OpRow | undefined)?.aten;
      return { op, ...(aten !== undefined && { aten }), inputs, attributes, axis, kind };
    }),
    inputs: graph.inputs.map(({ node }) => node),
    variable: graph.inputs.findIndex(({ name }) => name === "logprobs"),
    loss: graph.loss,
    metrics: graph.metrics.map(({ node }) => node),
  };
}

const programs = new WeakMap<Graph, NativeProgram>();

/** The program of a loss. Checked and compiled at its first use, and kept as long as the loss. */
export function programOf(loss: Loss): NativeProgram {
  let program = programs.get(loss.graph);
  if (program === undefined) {
    try {
      program = loadBinding().compile(specOf(loss.graph));
    } catch (error) {
      throw typedError(error);
    }
    programs.set(loss.graph, program);
  }
  return program;
}
