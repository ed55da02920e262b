// Looks into a loss: named intermediate values, and the share of each named term.

import { describe, InputError } from "../errors.ts";
import { compileInspection } from "../loss/compile.ts";
import type { Loss } from "../loss/define.ts";
import type { Axis, Graph, Program } from "../loss/graph.ts";
import { runsOf } from "../rows/layout.ts";
import type { BatchContents } from "./batch.ts";
import type { Layout } from "./layout.ts";

/** One of a loss's named values: a number for each element of its axis; a mask gives 1 or 0. */
export class InspectedValue {
  readonly name: string;
  readonly axis: Axis;
  /** Packed: one number per trained token, sample or group, or one for the batch. */
  readonly data: Float64Array;
  readonly #layout: Layout;

  constructor(name: string, axis: Axis, data: Float64Array, layout: Layout) {
    this.name = name;
    this.axis = axis;
    this.data = data;
    this.#layout = layout;
  }

  /** Of a value per token: sample `i`'s full row, with NaN at untrained positions. */
  row(i: number): Float64Array {
    const { rowLengths } = this.#layout;
    const length = rowLengths[i];
    if (this.axis !== "token") {
      throw new InputError("row", `expected a value per token, got one per ${this.axis}`);
    }
    if (length === undefined) {
      throw new InputError("row", `expected an index from 0 to ${rowLengths.length - 1}, got ${describe(i)}`);
    }
    const row = new Float64Array(length).fill(Number.NaN);
    for (const { sample, start, size, token } of runsOf(this.#layout)) {
      if (sample === i) row.set(this.data.subarray(token, token + size), start);
    }
    return row;
  }
}

/** What a term of a loss contributes. */
export interface InspectedTerm {
  readonly value: number;
  /** Euclidean norm of its own gradient, d term / d logprob, over all trained tokens. */
  readonly gradientNorm: number;
}

export interface Inspection<T extends string = string, V extends string = string> {
  readonly loss: number;
  readonly terms: Readonly<Record<T, InspectedTerm>>;
  readonly values: Readonly<Record<V, InspectedValue>>;
}

const programs = new WeakMap<Graph, Program>();

/** The program of an inspection; compiled at its first use. */
export function inspectionOf({ graph }: Loss): Program {
  let program = programs.get(graph);
  if (program === undefined) {
    program = compileInspection(graph);
    programs.set(graph, program);
  }
  return program;
}

/** The result of a run of that program. */
export function inspectionFrom(
  program: Program,
  { layout }: BatchContents,
  { loss, metrics, outputs }: { loss: number; metrics: readonly number[]; outputs: readonly Float64Array[] },
): Inspection {
  const count = program.metrics.length / 2;
  const terms = program.metrics
    .slice(0, count)
    .map(({ name }, i) => [name, { value: metrics[i]!, gradientNorm: metrics[count + i]! }] as const);
  const values = program.outputs.map(({ name, node }, i) => {
    const { axis } = program.nodes[node]!;
    return [name, new InspectedValue(name, axis, outputs[i]!, layout)] as const;
  });
  return { loss, terms: Object.fromEntries(terms), values: Object.fromEntries(values) };
}
