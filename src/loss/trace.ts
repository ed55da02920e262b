// Collects nodes: those of a loss while its function runs, and those of a program while it is compiled.
import { fineness } from "./axes.ts";
import { LossError } from "./errors.ts";
import type { Axis, GraphInput, GraphNode, Kind, ProgramNode } from "./graph.ts";
import { callerSource } from "./source.ts";

/** A node to be added. */
export interface NewNode {
  readonly op: string;
  readonly inputs: readonly number[];
  readonly axis: Axis;
  readonly kind: Kind;
  readonly attributes: Readonly<Record<string, number>>;
}

/** May give the index of a node that stands for a new one. */
export type Simplify = (trace: Trace, node: NewNode) => number | undefined;

/** What is computed now: nodes that are added belong to it. */
export interface Origin {
  readonly index: number;
  readonly source: string | undefined;
}

const nameAndValue = ([name, x]: [string, number]) => `${name}=${Object.is(x, -0) ? "-0" : x}`;

/** Nodes under construction. Equal nodes are made once. */
export class Trace {
  #nodes: ProgramNode[] = [];
  #known = new Map<string, number>();
  #inputs: GraphInput[] = [];
  #open = true;
  readonly #simplify: Simplify | undefined;
  /** Set while a program is compiled; while a loss is traced, nodes belong to the line that makes them. */
  origin: Origin | undefined;

  constructor(simplify?: Simplify) {
    this.#simplify = simplify;
  }

  /** Number of nodes so far. */
  get size(): number {
    return this.#nodes.length;
  }

  /** Adds a node, or finds one that stands for it, and gives its index. */
  add(node: NewNode, source?: string): number {
    if (!this.#open) {
      throw new LossError(
        "ERR_TRACE",
        `${node.op}: a tensor was used after its loss function had returned`,
        source,
      );
    }
    const { op, inputs, axis, kind, attributes } = node;
    const key = [op, axis, kind, ...inputs, ...Object.entries(attributes).map(nameAndValue)].join(" ");
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const index = this.#simplify?.(this, node) ?? this.#push({ ...node, source });
    this.#known.set(key, index);
    return index;
  }

  #push(node: GraphNode): number {
    const { index = this.#nodes.length, source = node.source } = this.origin ?? {};
    return this.#nodes.push({ ...node, source, origin: index }) - 1;
  }

  input(name: string, axis: Axis): number {
    const node = this.#push({
      op: "input",
      inputs: [],
      attributes: {},
      axis,
      kind: "number",
      source: undefined,
    });
    this.#inputs.push({ name, node, axis });
    return node;
  }

  /** An input over an axis, if there is one. */
  inputOver(axis: Axis): number | undefined {
    return this.#inputs.find((input) => input.axis === axis)?.node;
  }

  /** Whether a node is the input of a name. */
  isInput(index: number, name: string): boolean {
    return this.#inputs.some((input) => input.node === index && input.name === name);
  }

  constant(value: number, source?: string): number {
    return this.add(
      { op: "constant", inputs: [], axis: "batch", kind: "number", attributes: { value } },
      source,
    );
  }

  /** The value of a node broadcast to a finer axis; the node itself if that is its own. */
  spread(index: number, axis: Axis, source?: string): number {
    const { axis: own, kind } = this.node(index);
    if (fineness(own) === fineness(axis)) return index;
    return this.add({ op: "spread", inputs: [index], axis, kind, attributes: {} }, source);
  }

  node(index: number): ProgramNode {
    return this.#nodes[index]!;
  }

  /** The line that what is traced now comes from. */
  source(): string | undefined {
    return this.origin === undefined ? callerSource() : this.origin.source;
  }

  /** What made a node, for messages. */
  describe(index: number): string {
    const { op, source } = this.node(index);
    const name = this.#inputs.find((input) => input.node === index)?.name;
    return name !== undefined ? `the input ${name}` : source === undefined ? op : `${op} at ${source}`;
  }

  /** Ends the trace and drops what none of the `roots` needs; inputs stay. */
  finish(roots: readonly number[]): {
    nodes: ProgramNode[];
    inputs: GraphInput[];
    /** The new index of a node that was kept, and, of any other number, how many of the nodes below it were. */
    at: (old: number) => number;
  } {
    this.#open = false;
    const kept: boolean[] = Array(this.#nodes.length + 1).fill(false);
    for (const root of [...roots, ...this.#inputs.map(({ node }) => node)]) kept[root] = true;
    for (let index = this.#nodes.length - 1; index >= 0; index--) {
      if (kept[index]) for (const input of this.node(index).inputs) kept[input] = true;
    }
    const moved: number[] = [];
    let count = 0;
    for (const keep of kept) moved.push(keep ? count++ : count);
    const at = (old: number) => moved[old]!;
    return {
      nodes: this.#nodes
        .filter((_, index) => kept[index])
        .map((node) => ({ ...node, inputs: node.inputs.map(at) })),
      inputs: this.#inputs.map((input) => ({ ...input, node: at(input.node) })),
      at,
    };
  }
}
