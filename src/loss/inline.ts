// Puts what one loss computes into another that is being traced.
import type { Loss, LossOutput } from "./define.ts";
import type { Axis, NamedNode } from "./graph.ts";
import { Symbolic, type Tensor } from "./tensor.ts";

/**
 * What a loss comes to on the inputs and parameters of another, which is being traced; nodes keep the lines that made
 * them. `args` holds `logprobs`, `weights`, and the inputs and parameters of the loss by name.
 */
export function inline(
  loss: Loss,
  args: { readonly logprobs: Tensor<"token"> } & Readonly<Record<string, Tensor<Axis>>>,
): Required<Pick<LossOutput, "loss" | "metrics" | "terms">> {
  const { graph } = loss;
  const trace = Symbolic.traceOf(args.logprobs)!;
  const names = new Map(graph.inputs.map(({ node, name }) => [node, name]));
  const became: number[] = [];
  graph.nodes.forEach((node, index) => {
    const name = names.get(index);
    const inputs = node.inputs.map((input) => became[input]!);
    became.push(
      name === undefined ? trace.add({ ...node, inputs }, node.source) : Symbolic.indexOf(args[name]!),
    );
  });
  const tensor = (node: number) => new Symbolic(trace, became[node]!) as unknown as Tensor<"batch">;
  const tensors = (nodes: readonly NamedNode[]) =>
    Object.fromEntries(nodes.map(({ name, node }) => [name, tensor(node)]));
  return { loss: tensor(graph.loss), metrics: tensors(graph.metrics), terms: tensors(graph.terms) };
}
