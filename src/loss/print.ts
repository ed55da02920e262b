// Prints graphs and programs readably, one op a line.
import { AXES, type Graph, type GraphInput, type GraphNode, type NamedNode, type Program } from "./graph.ts";

/** a, b, ..., z, aa, ab, ... */
const letters = (n: number): string =>
  (n < 26 ? "" : letters(Math.floor(n / 26) - 1)) + String.fromCharCode(97 + (n % 26));

/** Static numbers as they are printed: one alone by its value, several by name; an axis by its name. */
function printAttributes(attributes: GraphNode["attributes"]): string[] {
  const entries = Object.entries(attributes).map(([name, value]) =>
    name === "within" ? (["within", AXES[value]!] as const) : ([name, `${value}`] as const),
  );
  return entries.length === 1 ? [entries[0]![1]] : entries.map(([name, value]) => `${name}=${value}`);
}

interface Printable {
  readonly nodes: readonly GraphNode[];
  readonly inputs: readonly GraphInput[];
  readonly loss: number;
  readonly metrics: readonly NamedNode[];
}

/** The texts by which nodes are used, and the line that makes each of those that have one. */
function printNodes({ nodes, inputs }: Printable): { texts: string[]; lines: (string | undefined)[] } {
  const names = new Map(inputs.map((input) => [input.node, input.name]));
  const used = new Set(names.values());
  const texts: string[] = [];
  const lines: (string | undefined)[] = [];
  let next = 0;

  const freshName = (): string => {
    let candidate = letters(next++);
    while (used.has(candidate)) candidate = letters(next++);
    return candidate;
  };
  const textOf = (node: GraphNode, index: number): string => {
    const operand = (place: number) => texts[node.inputs[place]!]!;
    if (node.op === "input") return names.get(index)!;
    if (node.op === "constant") return `${node.attributes.value}`;
    if (node.op === "spread")
      return nodes[node.inputs[0]!]!.op === "constant" ? operand(0) : `${operand(0)}@${node.axis}`;
    const result = freshName();
    const operands = node.inputs.map((_, place) => operand(place));
    const kind = node.kind === "mask" ? " mask" : "";
    const right = [node.op, ...operands, ...printAttributes(node.attributes)].join(" ");
    lines[index] = `  ${result}: ${node.axis}${kind} = ${right}`;
    return result;
  };
  nodes.forEach((node, index) => {
    texts.push(textOf(node, index));
  });
  return { texts, lines };
}

const isText = (line: string | undefined): line is string => line !== undefined;
const returned = ({ loss, metrics }: Printable, texts: readonly string[]) =>
  `  return ${[texts[loss]!, ...metrics.map(({ name, node }) => `${name}: ${texts[node]}`)].join(", ")}`;
const heading = (name: string, { inputs }: Printable) =>
  `loss ${name}(${inputs.map((input) => `${input.name}: ${input.axis}`).join(", ")})`;

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
  const { texts, lines } = printNodes(graph);
  return [heading(name, graph), ...lines.filter(isText), returned(graph, texts)].join("\n");
}

/** The same of a program, with the gradient behind the loss. */
export function printProgram(name: string, program: Program): string {
  const { texts, lines } = printNodes(program);
  return [
    heading(name, program),
    ...lines.slice(0, program.forward).filter(isText),
    returned(program, texts),
    "gradient of logprobs",
    ...lines.slice(program.forward).filter(isText),
    `  return ${texts[program.gradient]}`,
  ].join("\n");
}
