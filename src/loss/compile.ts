// Turns a traced loss into the program that executors run: primitive ops, then the gradient, simplified on the way.
import { differentiate } from "./differentiate.ts";
import type { Graph, NamedNode, Program } from "./graph.ts";
import { ruleOf } from "./rules.ts";
import { simplify } from "./simplify.ts";
import { Symbolic, type Tensor } from "./tensor.ts";
import { type Simplify, Trace } from "./trace.ts";

const tensorOf = (trace: Trace, index: number) => new Symbolic(trace, index) as unknown as Tensor<"token">;

/** A composite op becomes what it is made of, any other what `simplify` makes of it. */
const lowering =
  (simplify: Simplify): Simplify =>
  (trace, node) => {
    const rule = ruleOf(node.op);
    if (rule.kind !== "composite") return simplify(trace, node);
    const operands = node.inputs.map((input) => tensorOf(trace, input));
    return Symbolic.indexOf(rule.expand(operands, node));
  };

/** A program under construction. */
class Compilation {
  readonly trace: Trace;
  readonly graph: Graph;
  /** The node that each node of the graph became. */
  readonly #became: number[] = [];

  constructor(graph: Graph, simplifying: Simplify = simplify) {
    this.trace = new Trace(lowering(simplifying));
    this.graph = graph;
    const names = new Map(graph.inputs.map(({ node, name }) => [node, name]));
    graph.nodes.forEach((node, index) => {
      this.trace.origin = { index, source: node.source };
      this.#became.push(
        node.op === "input"
          ? this.trace.input(names.get(index)!, node.axis)
          : this.trace.add({ ...node, inputs: node.inputs.map((input) => this.at(input)) }),
      );
    });
    this.trace.origin = undefined;
  }

  at(node: number): number {
    return this.#became[node]!;
  }

  named(nodes: readonly NamedNode[]): NamedNode[] {
    return nodes.map(({ name, node }) => ({ name, node: this.at(node) }));
  }

  /** d y / d input, zeros where no gradient flows. */
  gradients(y: number, inputs: readonly string[]): number[] {
    const nodes = inputs.map((name) => this.at(this.graph.inputs.find((input) => input.name === name)!.node));
    return differentiate(this.trace, y, nodes).map(
      (gradient, i) => gradient ?? this.trace.spread(this.trace.constant(0), this.trace.node(nodes[i]!).axis),
    );
  }

  finish(
    gradient: number,
    forward: number,
    metrics: readonly NamedNode[],
    outputs: readonly NamedNode[],
  ): Program {
    const loss = this.at(this.graph.loss);
    const named = [...metrics, ...outputs].map(({ node }) => node);
    const { nodes, inputs, at } = this.trace.finish([loss, gradient, ...named]);
    const moved = (list: readonly NamedNode[]) => list.map(({ name, node }) => ({ name, node: at(node) }));
    return {
      nodes,
      inputs,
      loss: at(loss),
      metrics: moved(metrics),
      gradient: at(gradient),
      forward: at(forward),
      outputs: moved(outputs),
    };
  }
}

/** The program of a loss and its gradient. `plain` leaves every op as the loss and the rules have it. */
export function compile(graph: Graph, { plain = false } = {}): Program {
  const compilation = new Compilation(graph, plain ? () => undefined : simplify);
  const forward = compilation.trace.size;
  const [gradient] = compilation.gradients(compilation.at(graph.loss), ["logprobs"]);
  return compilation.finish(gradient!, forward, compilation.named(graph.metrics), []);
}

/**
 * A program that also gives the named values, as outputs, and of each term, as metrics, its value and the Euclidean norm
 * of its own gradient: those of all terms first, then the norms.
 */
export function compileInspection(graph: Graph): Program {
  const compilation = new Compilation(graph);
  const { trace } = compilation;
  const [gradient] = compilation.gradients(compilation.at(graph.loss), ["logprobs"]);
  const terms = compilation.named(graph.terms);
  const norms = terms.map(({ name, node }) => {
    const [own] = compilation.gradients(node, ["logprobs"]);
    return { name, node: Symbolic.indexOf(tensorOf(trace, own!).square().sum().sqrt()) };
  });
  return compilation.finish(gradient!, trace.size, [...terms, ...norms], compilation.named(graph.values));
}

/**
 * A program that gives, as outputs, the gradients of all inputs but the log-probabilities, by name, then the operands of
 * the graph's `detach` nodes, in their order.
 */
export function compileCheck(graph: Graph): Program {
  const compilation = new Compilation(graph);
  const inputs = graph.inputs.map(({ name }) => name);
  const gradients = compilation.gradients(compilation.at(graph.loss), inputs);
  const others = inputs.flatMap((name, i) => (name === "logprobs" ? [] : [{ name, node: gradients[i]! }]));
  const detached = graph.nodes.flatMap(({ op, inputs }) =>
    op === "detach" ? [{ name: "detach", node: compilation.at(inputs[0]!) }] : [],
  );
  const gradient = gradients[inputs.indexOf("logprobs")]!;
  return compilation.finish(gradient, compilation.trace.size, [], [...others, ...detached]);
}

/**
 * The graph with each `detach` node replaced by an input of its own, named `detach 0`, `detach 1`, ...: given the values
 * that the operands had, the loss as a function that plain differences may differentiate.
 */
export function freeze(graph: Graph): Graph {
  const frozen = graph.nodes.flatMap(({ op, axis }, node) => (op === "detach" ? [{ node, axis }] : []));
  const added = new Set(frozen.map(({ node }) => node));
  return {
    ...graph,
    nodes: graph.nodes.map((node, index) =>
      added.has(index) ? { ...node, op: "input", inputs: [], attributes: {} } : node,
    ),
    inputs: [...graph.inputs, ...frozen.map((input, i) => ({ ...input, name: `detach ${i}` }))],
  };
}
