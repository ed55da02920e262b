// Prints a graph as a readable program, one op a line.
import type { Graph, GraphNode } from "./graph.ts";

/** a, b, ..., z, aa, ab, ... */
const letters = (n: number): string =>
  (n < 26 ? "" : letters(Math.floor(n / 26) - 1)) + String.fromCharCode(97 + (n % 26));

/**
 * Names every value with its axis. A broadcast is written where it is used, as `beta@token`; constants stand in place.
 *
 * @example
 * loss sft(logprobs: token)
 *   a: token = neg logprobs
 *   b: batch = mean a
 *   return b
 */
export function printGraph(name: string, graph: Graph): string {
  const inputs = new Map(graph.inputs.map((input) => [input.node, input.name]));
  const used = new Set(inputs.values());
  const texts: string[] = [];
  const lines: string[] = [];
  let next = 0;

  const freshName = (): string => {
    let candidate = letters(next++);
    while (used.has(candidate)) candidate = letters(next++);
    return candidate;
  };
  const textOf = (node: GraphNode, index: number): string => {
    const operand = (place: number) => texts[node.inputs[place]!]!;
    if (node.op === "input") return inputs.get(index)!;
    if (node.op === "constant") return `${node.attributes.value}`;
    if (node.op === "spread")
      return graph.nodes[node.inputs[0]!]!.op === "constant" ? operand(0) : `${operand(0)}@${node.axis}`;
    const result = freshName();
    const operands = [...node.inputs.map((_, place) => operand(place)), ...Object.values(node.attributes)];
    lines.push(
      `  ${result}: ${node.axis}${node.kind === "mask" ? " mask" : ""} = ${node.op} ${operands.join(" ")}`,
    );
    return result;
  };
  graph.nodes.forEach((node, index) => {
    texts.push(textOf(node, index));
  });

  const parameters = graph.inputs.map((input) => `${input.name}: ${input.axis}`).join(", ");
  const metrics = graph.metrics.map((metric) => `, ${metric.name}: ${texts[metric.node]}`).join("");
  return [`loss ${name}(${parameters})`, ...lines, `  return ${texts[graph.loss]}${metrics}`].join("\n");
}
