// The graph that tracing a loss gives: a flat, typed, printable program.

/** Axes a tensor can vary over, from coarse to fine. Each nests in the one before it. */
export const AXES = ["batch", "group", "sample", "token"] as const;
export type Axis = (typeof AXES)[number];

/** What a value is made of: floating-point numbers or truth values. */
export type Kind = "number" | "mask";

export interface GraphNode {
  /** Name of a row of the op table, or one of the structural ops `input`, `constant`, `spread`. */
  readonly op: string;
  /** Indices of earlier nodes. */
  readonly inputs: readonly number[];
  /** Static numbers, such as `exponent` of `pow` or `index` of `member`. */
  readonly attributes: Readonly<Record<string, number>>;
  readonly axis: Axis;
  readonly kind: Kind;
  /** `file:line:column` of the user's code that made the node, where known. */
  readonly source: string | undefined;
}

export interface GraphInput {
  readonly name: string;
  readonly node: number;
  readonly axis: Axis;
}

/** A traced loss. Nodes stand in the order in which they were made; nothing in it knows a length. */
export interface Graph {
  readonly nodes: readonly GraphNode[];
  /** `logprobs` (the variable), `weights`, the declared inputs and the parameters (axis `batch`). */
  readonly inputs: readonly GraphInput[];
  /** Index of the node that is the loss, of axis `batch`. */
  readonly loss: number;
  readonly metrics: readonly { readonly name: string; readonly node: number }[];
}
