// Declares a loss: its inputs, its parameters and the function that computes it.
import { faultOfNames, isRecord } from "../names.ts";
import "./call.ts";
import { compile } from "./compile.ts";
import { checkDeclaration } from "./declaration.ts";
import { refuse } from "./errors.ts";
import type { Axis, Graph, NamedNode, Program } from "./graph.ts";
import { printGraph } from "./print.ts";
import { ruleOf } from "./rules.ts";
import { describeOperand, inputTensor, type Mask, Symbolic, type Tensor } from "./tensor.ts";
import { Trace } from "./trace.ts";

/** An input of a loss and the axis it varies over. */
export interface LossInput<A extends Axis = Axis> {
  readonly axis: A;
}

/** An input with one number per trained token, such as reference log-probabilities. */
export const perToken = (): LossInput<"token"> => ({ axis: "token" });
/** An input with one number per sample, such as advantages. */
export const perSample = (): LossInput<"sample"> => ({ axis: "sample" });
/** An input with one number per group of samples. */
export const perGroup = (): LossInput<"group"> => ({ axis: "group" });

/** The inputs of a loss, by name. */
export type LossInputs = Readonly<Record<string, LossInput>>;
/** The parameters of a loss and their default values, by name. */
export type LossParams = Readonly<Record<string, number>>;

/** What a loss function is called with. */
export type LossArguments<I extends LossInputs, P extends LossParams> = {
  /** The policy's log-probability of each trained token: the variable. */
  readonly logprobs: Tensor<"token">;
  /** The weight of each trained token, above 0. */
  readonly weights: Tensor<"token">;
} & { readonly [Name in keyof I]: Tensor<NonNullable<I[Name]>["axis"]> } & {
  readonly [Name in keyof P]: Tensor<"batch">;
};

/** What `defineLoss` takes. */
export interface LossDefinition<
  I extends LossInputs,
  P extends LossParams,
  M extends string,
  T extends string,
  V extends string,
> {
  /** Name for messages and for the printed program. Default `loss`. */
  readonly name?: string;
  /** Inputs besides `logprobs` and `weights`. */
  readonly inputs?: I;
  /** Numbers that may change from step to step, with their defaults. They never cause a new compilation. */
  readonly params?: P;
  /** Computes the loss, a `Tensor<"batch">`, and, if it likes, metrics and more from the same pass. Must not be async. */
  readonly loss: (args: LossArguments<I, P>) => Tensor<"batch"> | LossOutput<M, T, V>;
}

type OnAnyAxis<A extends Axis = Axis> = A extends Axis ? Tensor<A> | Mask<A> : never;
/** A tensor or mask of any axis. */
export type AnyTensor = OnAnyAxis;

/** What a loss function may return instead of the bare loss. */
export interface LossOutput<M extends string = string, T extends string = string, V extends string = string> {
  readonly loss: Tensor<"batch">;
  /** Numbers that every run gives beside the loss. */
  readonly metrics?: Readonly<Record<M, Tensor<"batch">>>;
  /** Summands of the loss: an inspection gives the value of each and the norm of its own gradient. */
  readonly terms?: Readonly<Record<T, Tensor<"batch">>>;
  /** Intermediate values that an inspection gives, per token, sample, group or for the batch. */
  readonly values?: Readonly<Record<V, AnyTensor>>;
}

/** A traced loss. Printing it shows its program. */
export class Loss<
  I extends LossInputs = LossInputs,
  P extends LossParams = LossParams,
  M extends string = string,
  T extends string = string,
  V extends string = string,
> {
  readonly name: string;
  /** The declared inputs. */
  readonly inputs: I;
  /** The parameters with their default values. */
  readonly params: P;
  /** What the function computed, as its printed form shows it. */
  readonly graph: Graph;
  /** The metrics' names in their order. */
  readonly metrics: readonly M[];
  /** The names of the terms in their order. */
  readonly terms: readonly T[];
  /** The names of the intermediate values that an inspection gives. */
  readonly values: readonly V[];
  #program: Program | undefined;

  constructor(name: string, inputs: I, params: P, graph: Graph) {
    this.name = name;
    this.inputs = inputs;
    this.params = params;
    this.graph = graph;
    this.metrics = graph.metrics.map(({ name }) => name as M);
    this.terms = graph.terms.map(({ name }) => name as T);
    this.values = graph.values.map(({ name }) => name as V);
  }

  /** What an engine runs: the loss in primitive ops, then its gradient. Compiled when it is first asked for. */
  get program(): Program {
    this.#program ??= compile(this.graph);
    return this.#program;
  }

  toString(): string {
    return printGraph(this.name, this.graph);
  }
}

const RESULTS = ["loss", "metrics", "terms", "values"];

/** The node of something that the loss function returned. */
function nodeOf(trace: Trace, what: string, value: unknown, expected = "a tensor or a mask"): number {
  if (!(value instanceof Symbolic)) {
    const hint = value instanceof Promise ? "; a loss function must not be async" : "";
    return refuse("ERR_LOSS_RESULT", `${what}: expected ${expected}, got ${describeOperand(value)}${hint}`);
  }
  if (Symbolic.traceOf(value) !== trace)
    refuse("ERR_LOSS_RESULT", `${what}: the tensor belongs to another loss`);
  return Symbolic.indexOf(value);
}

/** The node of a number for the whole batch. */
function scalarNode(trace: Trace, what: string, value: unknown): number {
  if (value instanceof Symbolic && (value.kind !== "number" || value.axis !== "batch")) {
    refuse(
      "ERR_LOSS_RESULT",
      `${what}: expected a tensor of axis "batch", got ${describeOperand(value)}; reduce it, for example with .mean()`,
    );
  }
  return nodeOf(trace, what, value, 'a Tensor<"batch">');
}

/** The nodes of a record that the loss function returned. */
function namedNodes(
  trace: Trace,
  what: string,
  record: unknown,
  node: (trace: Trace, what: string, value: unknown) => number,
): NamedNode[] {
  if (record === undefined) return [];
  if (!isRecord(record) || record instanceof Symbolic) {
    return refuse(
      "ERR_LOSS_RESULT",
      `${what}: expected an object of tensors by name, got ${describeOperand(record)}`,
    );
  }
  return Object.entries(record).map(([name, value]) => ({
    name,
    node: node(trace, `${what}.${name}`, value),
  }));
}

/** Ends a trace with what the loss function returned. */
function finishGraph(trace: Trace, name: string, returned: unknown): Graph {
  const bare = !isRecord(returned) || returned instanceof Symbolic;
  const parts: Readonly<Record<string, unknown>> = bare ? { loss: returned } : returned;
  const fault = faultOfNames(parts, RESULTS);
  if (fault !== undefined) refuse("ERR_LOSS_RESULT", `${name}: "${fault.name}" returned: ${fault.problem}`);
  const loss = scalarNode(trace, name, parts.loss);
  const metrics = namedNodes(trace, `${name}: metrics`, parts.metrics, scalarNode);
  const terms = namedNodes(trace, `${name}: terms`, parts.terms, scalarNode);
  const values = namedNodes(trace, `${name}: values`, parts.values, nodeOf);
  const named = [metrics, terms, values];
  const { nodes, inputs, at } = trace.finish([loss, ...named.flat().map(({ node }) => node)]);
  const [keptMetrics, keptTerms, keptValues] = named.map((list) =>
    list.map((entry) => ({ name: entry.name, node: at(entry.node) })),
  ) as [NamedNode[], NamedNode[], NamedNode[]];
  return {
    nodes: nodes.map(({ origin: _, ...node }) => node),
    inputs,
    loss: at(loss),
    metrics: keptMetrics,
    terms: keptTerms,
    values: keptValues,
  };
}

/** Whether a gradient can flow from the loss back to the log-probabilities. */
function reachesLogprobs(graph: Graph): boolean {
  const reached = new Set([graph.inputs.find((input) => input.name === "logprobs")!.node]);
  graph.nodes.forEach(({ op, kind, inputs }, index) => {
    const passes = kind === "number" && ruleOf(op).kind !== "flat";
    if (passes && inputs.some((input) => reached.has(input))) reached.add(index);
  });
  return reached.has(graph.loss);
}

/**
 * Declares a loss over per-token log-probabilities and traces it once, at this call.
 *
 * @throws {LossError} with the source line, if the declaration is wrong, or the function reads a value, mixes axes
 * wrongly, returns something other than a `Tensor<"batch">`, or returns a loss that does not depend on `logprobs`.
 */
export function defineLoss<
  const I extends LossInputs = Record<never, never>,
  const P extends LossParams = Record<never, never>,
  M extends string = never,
  T extends string = never,
  V extends string = never,
>(definition: LossDefinition<I, P, M, T, V>): Loss<I, { readonly [Name in keyof P]: number }, M, T, V> {
  checkDeclaration(definition);
  const { name = "loss", inputs = {} as I, params = {} as P } = definition;

  const trace = new Trace();
  const logprobs = inputTensor(trace, "logprobs", "token");
  const given: Record<string, unknown> = { logprobs, weights: inputTensor(trace, "weights", "token") };
  for (const [key, input] of Object.entries(inputs)) given[key] = inputTensor(trace, key, input.axis);
  for (const key of Object.keys(params)) given[key] = inputTensor(trace, key, "batch");

  const graph = finishGraph(trace, name, definition.loss(given as unknown as LossArguments<I, P>));
  if (!reachesLogprobs(graph)) {
    refuse(
      "ERR_LOSS_RESULT",
      `${name}: the loss does not depend on logprobs, so there is no gradient to send`,
    );
  }
  return new Loss(name, inputs, params, graph);
}
