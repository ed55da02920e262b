// The graph that tracing a loss gives: a flat, typed, printable program.

/** Axes a tensor can vary over, from coarse to fine. Each nests in the one before it. */
export const AXES = ["batch", "group", "sample", "token"] as const;
export type Axis = (typeof AXES)[number];

/** What a value is made of: floating-point numbers or truth values. */
export type Kind = "number" | "mask";

export interface GraphNode {
  /** Name of a row of the op table, or of a structural op: `input`, `constant`, `spread`; in programs also `members`, `argsort`, `scatter`. */
  readonly op: string;
  /** Indices of earlier nodes. */
  readonly inputs: readonly number[];
  /** Static numbers, such as `exponent` of `pow` or `index` of `member`. An axis, as in `within`, is its index in `AXES`. */
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

/** A value with a name. */
export interface NamedNode {
  readonly name: string;
  readonly node: number;
}

/** A traced loss. Nodes stand in the order in which they were made; nothing in it knows a length. */
export interface Graph {
  readonly nodes: readonly GraphNode[];
  /** `logprobs` (the variable), `weights`, the declared inputs and the parameters (axis `batch`). */
  readonly inputs: readonly GraphInput[];
  /** Index of the node that is the loss, of axis `batch`. */
  readonly loss: number;
  /** Of axis `batch`. */
  readonly metrics: readonly NamedNode[];
  /** Summands of the loss, of axis `batch`. */
  readonly terms: readonly NamedNode[];
  /** Intermediate values, of any axis and kind. */
  readonly values: readonly NamedNode[];
}

/** A node of a program; `origin` is the node of the loss's graph that it is computed for. */
export interface ProgramNode extends GraphNode {
  readonly origin: number;
}

/** What executors run: a loss in primitive ops, then its gradient. */
export interface Program {
  readonly nodes: readonly ProgramNode[];
  readonly inputs: readonly GraphInput[];
  readonly loss: number;
  readonly metrics: readonly NamedNode[];
  /** d loss / d logprobs, of axis `token`. */
  readonly gradient: number;
  /** How many nodes come before the first that only the gradient needs. */
  readonly forward: number;
  /** Further nodes whose values are wanted, of any axis and kind. */
  readonly outputs: readonly NamedNode[];
}
