// The page of each ready loss, and that of the conventions that they share.
import type { Loss } from "../../src/loss/define.ts";
import { LOSSES, REQUIRED } from "../../src/losses/catalogue.ts";
import { INPUTS, METRICS } from "./glossary.ts";
import { LINKED, type LossDoc, lossDoc, type OptionDoc, typeDoc } from "./source.ts";

const CONVENTIONS = "conventions.md";
/** Types whose tables stand on the page of conventions; that of the pairs is on the page of its only loss. */
const SHARED = LINKED.filter((type) => type !== "PairLoss");

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
const cell = (text: string) => text.replaceAll("\n", " ").replaceAll("|", "\\|");
const known = (words: Readonly<Record<string, unknown>>, kind: string, name: string) => {
  if (!Object.hasOwn(words, name)) throw new Error(`glossary: expected the ${kind} ${name}, found none`);
};

function typeOf(type: string): string {
  if (type === "`K`") return "`KlOptions`";
  const shared = SHARED.find((name) => type === `\`${name}\``);
  return shared === undefined ? cell(type) : `[${type}](${CONVENTIONS}#${shared.toLowerCase()})`;
}

const optionRow = ({ name, type, isRequired, default: given = "", meaning }: OptionDoc): string[] => [
  `\`${name}\``,
  typeOf(type),
  isRequired ? "must be given" : given,
  cell(meaning),
];

function optionsSection(options: readonly OptionDoc[]): string[] {
  if (options.length === 0) return [];
  const penalty = options.some(({ name }) => name === "kl")
    ? lossDoc("klPenalty")
        .options.filter(({ name }) => name !== "reduction")
        .map((option) => optionRow({ ...option, name: `kl.${option.name}` }))
    : [];
  return [
    "## Options",
    table(["option", "type", "default", "meaning"], [...options.map(optionRow), ...penalty]),
  ];
}

function inputsSection({ inputs }: Loss): string[] {
  const rows = Object.entries(inputs).map(([name, { axis }]) => {
    known(INPUTS, "input", name);
    return [`\`${name}\``, axis, INPUTS[name]!.meaning];
  });
  return rows.length === 0 ? [] : ["## Inputs", table(["input", "one per", "what it holds"], rows)];
}

function metricsSection({ metrics, terms, params }: Loss): string[] {
  const rows = metrics.map((name) => {
    known(METRICS, "metric", name);
    return [`\`${name}\``, METRICS[name]!];
  });
  const names = (list: readonly string[]) => list.map((name) => `\`${name}\``).join(", ");
  const numbers = Object.keys(params);
  return [
    ...(rows.length === 0 ? [] : ["## Metrics", table(["metric", "meaning"], rows)]),
    ...(terms.length === 0 ? [] : [`Terms of an inspection: ${names(terms)}.`]),
    ...(numbers.length === 0
      ? []
      : [`Parameters, which may change from run to run without a new compilation: ${names(numbers)}.`]),
  ];
}

const PAIRS = /chosen|pairs/;

/** Samples in each group of the example: triples, pairs or completions of one prompt; 1 where nothing is grouped. */
function groupSize(name: string, loss: Loss): number {
  if (name === "tpo") return 3;
  return PAIRS.test(lossDoc(name).text) || "advantages" in loss.inputs ? 2 : 1;
}

/** The options of the example, as they are written in code. */
function optionsOf(name: string): string {
  const required: Readonly<Record<string, object>> = REQUIRED;
  if (!Object.hasOwn(required, name)) return "";
  return JSON.stringify(required[name])
    .replace(/"(\w+)":/g, "$1: ")
    .replaceAll(",", ", ")
    .replaceAll("{", "{ ")
    .replaceAll("}", " }");
}

function exampleOf(name: string, loss: Loss): string {
  const size = groupSize(name, loss);
  const samples = Math.max(size, 2);
  const logprobs = ["[0, -0.7, -1.2]", "[0, -1.1, -0.4]", "[0, -0.5, -0.6]"].slice(0, samples);
  const weights = Array(samples).fill("[0, 1, 1]");
  const inputs = Object.keys(loss.inputs).map(
    (input) => `${input}: [${INPUTS[input]!.example.slice(0, samples).join(", ")}]`,
  );
  return [
    "```ts",
    `import { createBatch, createEngine, ${name} } from "tokengrad";`,
    "",
    "const engine = await createEngine();",
    "const batch = await createBatch({",
    `  weights: [${weights.join(", ")}],`,
    `  logprobs: [${logprobs.join(", ")}],`,
    ...(size > 1 ? [`  groups: ${size},`] : []),
    ...(inputs.length > 0 ? [`  inputs: { ${inputs.join(", ")} },`] : []),
    "});",
    `const { loss, metrics, gradients } = await engine.run(${name}(${optionsOf(name)}), batch);`,
    "console.log(loss, metrics, gradients.row(0));",
    "engine.dispose();",
    "```",
  ].join("\n");
}

const note = (file: string) => `<!-- Made by \`npm run docs\` from ${file}: change that. -->`;

function lossPage(name: string, doc: LossDoc): string {
  const loss = LOSSES[name]!();
  const types = doc.options.some(({ type }) => type.includes("PairLoss"))
    ? ["### Types", typeDoc("PairLoss")]
    : [];
  return [
    note(doc.file),
    `# ${name}`,
    "## Formula",
    doc.text,
    ...types,
    ...optionsSection(doc.options),
    ...inputsSection(loss),
    ...metricsSection(loss),
    "## Example",
    exampleOf(name, loss),
  ].join("\n\n");
}

const conventionsPage = (): string =>
  [
    note("src/losses"),
    "# Conventions",
    "`l` is the policy's log-probability of a token, `o` the old policy's, `f` the reference's, `u` a teacher's, `q` the " +
      "sampler's own; `r = exp(l - o)` the ratio, `A` the advantage, `m` the weight; `S` a weighted sum over a sample; `sg` " +
      "stops a gradient.",
    ...SHARED.flatMap((type) => [`## ${type}`, typeDoc(type)]),
  ].join("\n\n");

/** All pages by file name. */
export const pages = (): Readonly<Record<string, string>> => ({
  [CONVENTIONS]: `${conventionsPage()}\n`,
  ...Object.fromEntries(
    Object.keys(LOSSES).map((name) => [`${name}.md`, `${lossPage(name, lossDoc(name))}\n`]),
  ),
});
