// Collects the nodes of one loss while its function runs.
import { fineness } from "./axes.ts";
import { LossError } from "./errors.ts";
import type { Axis, Graph, GraphInput, GraphNode, Kind } from "./graph.ts";

/** A trace under construction. Equal nodes are made once. */
export class Trace {
  #nodes: GraphNode[] = [];
  #known = new Map<string, number>();
  #inputs: GraphInput[] = [];
  #open = true;

  /** Adds a node, or finds the equal one that is there already, and gives its index. */
  add(
    op: string,
    inputs: readonly number[],
    axis: Axis,
    kind: Kind,
    attributes: Readonly<Record<string, number>>,
    source: string | undefined,
  ): number {
    if (!this.#open) {
      throw new LossError(
        "ERR_TRACE",
        `${op}: a tensor was used after its loss function had returned`,
        source,
      );
    }
    const numbers = Object.entries(attributes).map(([name, x]) => `${name}=${Object.is(x, -0) ? "-0" : x}`);
    const key = [op, axis, kind, ...inputs, ...numbers].join(" ");
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const index = this.#nodes.push({ op, inputs, attributes, axis, kind, source }) - 1;
    this.#known.set(key, index);
    return index;
  }

  input(name: string, axis: Axis): number {
    const node =
      this.#nodes.push({ op: "input", inputs: [], attributes: {}, axis, kind: "number", source: undefined }) -
      1;
    this.#inputs.push({ name, node, axis });
    return node;
  }

  constant(value: number, source: string | undefined): number {
    return this.add("constant", [], "batch", "number", { value }, source);
  }

  /** The value of a node broadcast to a finer axis; the node itself if that is its own. */
  spread(index: number, axis: Axis, source: string | undefined): number {
    const node = this.node(index);
    return fineness(node.axis) === fineness(axis)
      ? index
      : this.add("spread", [index], axis, node.kind, {}, source);
  }

  node(index: number): GraphNode {
    return this.#nodes[index]!;
  }

  /** What made a node, for messages. */
  origin(index: number): string {
    const { op, source } = this.node(index);
    const name = this.#inputs.find((input) => input.node === index)?.name;
    return name !== undefined ? `the input ${name}` : source === undefined ? op : `${op} at ${source}`;
  }

  /** Ends the trace: drops what neither the loss nor a metric needs; inputs stay. */
  finish(loss: number, metrics: readonly { name: string; node: number }[]): Graph {
    this.#open = false;
    const needed = new Set([
      ...this.#inputs.map((input) => input.node),
      loss,
      ...metrics.map((metric) => metric.node),
    ]);
    for (let index = this.#nodes.length - 1; index >= 0; index--) {
      if (needed.has(index)) for (const input of this.node(index).inputs) needed.add(input);
    }
    const kept = this.#nodes.flatMap((_, index) => (needed.has(index) ? [index] : []));
    const moved = new Map(kept.map((old, index) => [old, index]));
    const at = (old: number) => moved.get(old)!;
    return {
      nodes: kept.map((old) => ({ ...this.node(old), inputs: this.node(old).inputs.map(at) })),
      inputs: this.#inputs.map((input) => ({ ...input, node: at(input.node) })),
      loss: at(loss),
      metrics: metrics.map((metric) => ({ ...metric, node: at(metric.node) })),
    };
  }
}
