// Turns a loss's program into the one that the addon runs. Programs of the same structure are made once.
import type { Program } from "../loss/graph.ts";
import { OPS, type OpName, type OpRow } from "../loss/ops.ts";
import { loadBinding, type NativeProgram, type NativeProgramSpec } from "./binding.ts";
import { typedError } from "./errors.ts";

/** A program that the addon has checked. */
export interface CompiledProgram {
  readonly native: NativeProgram;
  /** The ops that the fused executor has no kernel for. */
  readonly lacking: readonly string[];
}

/** The addon's form of a program: each op by its ATen operator, where it has one. */
function specOf(program: Program): NativeProgramSpec {
  return {
    nodes: program.nodes.map(({ op, inputs, attributes, axis, kind }) => {
      const aten = (OPS[op as OpName] as OpRow | undefined)?.aten;
      return { op, ...(aten !== undefined && { aten }), inputs, attributes, axis, kind };
    }),
    inputs: program.inputs.map(({ node }) => node),
    variable: program.inputs.findIndex(({ name }) => name === "logprobs"),
    loss: program.loss,
    metrics: program.metrics.map(({ node }) => node),
    gradient: program.gradient,
    forward: program.forward,
    outputs: program.outputs.map(({ node }) => node),
  };
}

const compiled = new WeakMap<Program, CompiledProgram>();
/** By structure; held weakly, as programs live as long as their losses. */
const byStructure = new Map<string, WeakRef<CompiledProgram>>();
const dropped = new FinalizationRegistry<string>((key) => {
  if (byStructure.get(key)?.deref() === undefined) byStructure.delete(key);
});

/** What the addon made of a program: at its first use, or of the first one of the same structure. */
export function compiledOf(program: Program): CompiledProgram {
  const known = compiled.get(program);
  if (known !== undefined) return known;
  const spec = specOf(program);
  // Numbers that JSON has no text for must not be taken for one another.
  const key = JSON.stringify(spec, (_, value) =>
    typeof value === "number" && !(Number.isFinite(value) && !Object.is(value, -0))
      ? `${1 / value}|${value}`
      : value,
  );
  let result = byStructure.get(key)?.deref();
  if (result === undefined) {
    try {
      const binding = loadBinding();
      const native = binding.compile(spec);
      result = { native, lacking: binding.lacking(native) };
    } catch (error) {
      throw typedError(error);
    }
    byStructure.set(key, new WeakRef(result));
    dropped.register(result, key);
  }
  compiled.set(program, result);
  return result;
}
