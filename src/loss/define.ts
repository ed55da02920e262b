// Declares a loss: its inputs, its parameters and the function that computes it.
import { describe } from "../errors.ts";
import { LossError } from "./errors.ts";
import type { Axis, Graph } from "./graph.ts";
import { printGraph } from "./print.ts";
import { callerSource } from "./source.ts";
import { describeOperand, inputTensor, Symbolic, type Tensor } from "./tensor.ts";
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
} & { readonly [Name in keyof I]: Tensor<I[Name]["axis"]> } & { readonly [Name in keyof P]: Tensor<"batch"> };

/** What `defineLoss` takes. */
export interface LossDefinition<I extends LossInputs, P extends LossParams, M extends string> {
  /** Name for messages and for the printed program. Default `loss`. */
  readonly name?: string;
  /** Inputs besides `logprobs` and `weights`. */
  readonly inputs?: I;
  /** Numbers that may change from step to step, with their defaults. They never cause a new compilation. */
  readonly params?: P;
  /** Computes the loss, a `Tensor<"batch">`; metrics, if any, come out of the same pass. Must not be async. */
  readonly loss: (
    args: LossArguments<I, P>,
  ) =>
    | Tensor<"batch">
    | { readonly loss: Tensor<"batch">; readonly metrics: Readonly<Record<M, Tensor<"batch">>> };
}

/** A traced loss. Printing it shows its program. */
export class Loss<
  I extends LossInputs = LossInputs,
  P extends LossParams = LossParams,
  M extends string = string,
> {
  readonly name: string;
  /** The declared inputs. */
  readonly inputs: I;
  /** The parameters with their default values. */
  readonly params: P;
  /** The program: what its printed form shows, and what an engine runs. */
  readonly graph: Graph;
  /** The metrics' names in their order. */
  readonly metrics: readonly M[];

  constructor(name: string, inputs: I, params: P, graph: Graph) {
    this.name = name;
    this.inputs = inputs;
    this.params = params;
    this.graph = graph;
    this.metrics = graph.metrics.map((metric) => metric.name as M);
  }

  toString(): string {
    return printGraph(this.name, this.graph);
  }
}

const fail = (code: "ERR_LOSS_DEFINITION" | "ERR_LOSS_RESULT", problem: string): never => {
  throw new LossError(code, problem, callerSource());
};

/** Checks the declared names and default values. */
function checkDeclaration(name: string, inputs: LossInputs, params: LossParams): void {
  const taken = new Set(["logprobs", "weights"]);
  for (const key of [...Object.keys(inputs), ...Object.keys(params)]) {
    if (taken.has(key)) fail("ERR_LOSS_DEFINITION", `${name}: the name "${key}" is taken`);
    taken.add(key);
  }
  for (const [key, input] of Object.entries(inputs)) {
    if (!["token", "sample", "group"].includes(input?.axis)) {
      fail(
        "ERR_LOSS_DEFINITION",
        `${name}: inputs.${key}: expected perToken(), perSample() or perGroup(), got ${describe(input)}`,
      );
    }
  }
  for (const [key, value] of Object.entries(params)) {
    if (!Number.isFinite(value)) {
      fail("ERR_LOSS_DEFINITION", `${name}: params.${key}: expected a finite number, got ${describe(value)}`);
    }
  }
}

/** The node of a batch scalar that the loss function returned. */
function scalarNode(trace: Trace, what: string, value: unknown): number {
  if (!(value instanceof Symbolic)) {
    const hint = value instanceof Promise ? "; a loss function must not be async" : "";
    return fail(
      "ERR_LOSS_RESULT",
      `${what}: expected a Tensor<"batch">, got ${describeOperand(value)}${hint}`,
    );
  }
  if (value.kind !== "number" || value.axis !== "batch") {
    fail(
      "ERR_LOSS_RESULT",
      `${what}: expected a tensor of axis "batch", got ${describeOperand(value)}; reduce it, for example with .mean()`,
    );
  }
  if (Symbolic.traceOf(value) !== trace)
    fail("ERR_LOSS_RESULT", `${what}: the tensor belongs to another loss`);
  return Symbolic.indexOf(value);
}

/** Whether a gradient can flow from the loss back to the log-probabilities. */
function reachesLogprobs(graph: Graph): boolean {
  const reached = new Set([graph.inputs.find((input) => input.name === "logprobs")!.node]);
  graph.nodes.forEach(({ op, kind, inputs }, index) => {
    if (op !== "detach" && kind === "number" && inputs.some((input) => reached.has(input)))
      reached.add(index);
  });
  return reached.has(graph.loss);
}

/**
 * Declares a loss over per-token log-probabilities and traces it once, at this call.
 *
 * @throws {LossError} with the source line, if the function reads a value, mixes axes wrongly, returns something other
 * than a `Tensor<"batch">`, or returns a loss that does not depend on `logprobs`.
 */
export function defineLoss<
  const I extends LossInputs = Record<never, never>,
  const P extends LossParams = Record<never, never>,
  M extends string = never,
>(definition: LossDefinition<I, P, M>): Loss<I, { readonly [Name in keyof P]: number }, M> {
  const name = definition.name ?? "loss";
  const inputs = definition.inputs ?? ({} as I);
  const params = definition.params ?? ({} as P);
  checkDeclaration(name, inputs, params);

  const trace = new Trace();
  const logprobs = inputTensor(trace, "logprobs", "token");
  const given: Record<string, unknown> = { logprobs, weights: inputTensor(trace, "weights", "token") };
  for (const [key, input] of Object.entries(inputs)) given[key] = inputTensor(trace, key, input.axis);
  for (const key of Object.keys(params)) given[key] = inputTensor(trace, key, "batch");

  const returned: unknown = definition.loss(given as unknown as LossArguments<I, P>);
  const parts =
    returned instanceof Symbolic ||
    typeof returned !== "object" ||
    returned === null ||
    returned instanceof Promise
      ? { loss: returned, metrics: {} }
      : (returned as { loss: unknown; metrics?: Record<string, unknown> });
  const loss = scalarNode(trace, name, parts.loss);
  const metrics = Object.entries(parts.metrics ?? {}).map(([key, value]) => ({
    name: key,
    node: scalarNode(trace, `${name}: metrics.${key}`, value),
  }));
  const graph = trace.finish(loss, metrics);
  if (!reachesLogprobs(graph)) {
    fail("ERR_LOSS_RESULT", `${name}: the loss does not depend on logprobs, so there is no gradient to send`);
  }
  return new Loss(name, inputs, params, graph);
}
