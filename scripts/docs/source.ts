// Reads the doc comments and options of the ready losses from their source.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const folder = join(import.meta.dirname, "../../src/losses");
const files = readdirSync(folder).map((file) => ({ file, text: readFileSync(join(folder, file), "utf8") }));

/** Types whose names have a table of their own. */
export const LINKED = ["Reduction", "KlEstimator", "RolloutCorrection", "PairLoss"];

/** One option of a loss. */
export interface OptionDoc {
  readonly name: string;
  readonly type: string;
  readonly isRequired: boolean;
  readonly default: string | undefined;
  readonly meaning: string;
}

export interface LossDoc {
  readonly file: string;
  /** Paragraphs and tables of the doc comment. */
  readonly text: string;
  readonly options: readonly OptionDoc[];
}

/** The text of a doc comment: joined to paragraphs, tables and list items left as they are; tags apart. */
function readComment(comment: string): { text: string; tags: ReadonlyMap<string, string> } {
  const lines = comment
    .replace(/^\s*\/\*\*|\*\/\s*$/g, "")
    .split("\n")
    .map((line) => line.replace(/^\s*\* ?/, "").trimEnd());
  const blocks: string[] = [];
  for (const line of lines) {
    const last = blocks.at(-1);
    if (line === "") blocks.push("");
    else if (last === undefined || last === "" || line.startsWith("@")) blocks.push(line);
    else blocks[blocks.length - 1] = `${last}${line.startsWith("|") ? "\n" : " "}${line}`;
  }
  const tags = new Map<string, string>();
  for (const block of blocks) {
    const [, tag, rest] = block.match(/^@param (\S+) ([\s\S]*)$/) ?? [];
    if (tag !== undefined) tags.set(tag, rest!);
  }
  const text = blocks.filter((block) => block !== "" && !block.startsWith("@"));
  return { text: text.join("\n\n").trim(), tags };
}

const escaped = (name: string) => name.replace(/[$]/g, "\\$&");

/** The declaration of a name: its file, its doc comment, and its text up to the next declaration. */
function declarationOf(kind: string, name: string) {
  const start = new RegExp(`(/\\*\\*(?:(?!\\*/)[\\s\\S])*\\*/)?\\nexport (?:${kind}) ${escaped(name)}\\b`);
  for (const { file, text } of files) {
    const match = text.match(start);
    if (match === null) continue;
    const rest = text.slice(match.index! + match[0].length);
    const end = rest.search(/\n(?:\/\*\*|export |const |function |interface )/);
    return { file, whole: text, comment: match[1] ?? "", body: end < 0 ? rest : rest.slice(0, end) };
  }
  throw new Error(`${name}: expected an exported ${kind} in src/losses, found none`);
}

/** The doc comment of an exported type, such as the table of the reductions. */
export const typeDoc = (name: string): string =>
  readComment(declarationOf("type|interface", name).comment).text;

/** Finds "Default 0.1." in an option's text, and takes it out if it is a sentence of its own. */
function splitDefault(text: string): { meaning: string; default: string | undefined } {
  const match = text.match(/Default:? ((?:[^.,:;`]|\.\d|`[^`]*`)+)/);
  if (match === null) return { meaning: text, default: undefined };
  const [sentence, given] = match;
  const rest = text.replace(`${sentence}.`, "").replaceAll("  ", " ").trim();
  return { meaning: rest === "" ? text : rest, default: given };
}

const NUMBER = "-?[\\d.]+(?:e-?\\d+)?";
const VALUE = `("[^"]*"|${NUMBER}(?: [+-] ${NUMBER})?|Math\\.\\w+\\([^)]*\\)|true|false)`;

/** The default that the code fills in: that of the loss itself, else what losses of its file share. */
function defaultInCode(name: string, body: string, whole: string): { own?: string; shared?: string } {
  const constants = [...body.matchAll(/\b[A-Z]{3,}(?:_[A-Z]+)*\b/g)].map(
    ([constant]) => whole.match(new RegExp(`const ${constant} = [^;]*;`))?.[0] ?? "",
  );
  const own = [body, ...constants].join("\n").match(new RegExp(`\\b${name}(?: =|:) ${VALUE}(?=[,\\s}])`));
  const shared = whole.match(new RegExp(`\\b${name} = [^,}]*\\?\\? ${VALUE}`));
  const shown = (match: RegExpMatchArray | null) =>
    match?.[1]?.replaceAll('"', "`").replace(/^Math\..*/, "`$&`");
  return { own: shown(own), shared: shown(shared) } as { own?: string; shared?: string };
}

/** The names that an option may take, where its type is a list of them. */
function namesOf(type: string, whole: string): string {
  const alias = files
    .map(({ text }) => text.match(new RegExp(`type ${type} = (\\(?(?:key)?(?:of )?typeof [^;]*);`)))
    .find(Boolean);
  const given = alias?.[1] ?? type;
  const [, list] = given.match(/^\(typeof (\w+)\)\[number\]$/) ?? [];
  const [, table] = given.match(/^keyof typeof (\w+)$/) ?? [];
  if (list === undefined && (table === undefined || LINKED.includes(type))) return `\`${type}\``;
  const declaration = new RegExp(`const ${list ?? table} = ([\\[{][\\s\\S]*?)(?: as const|\\n\\})`);
  const text = [whole, ...files.map((file) => file.text)]
    .map((file) => file.match(declaration))
    .find(Boolean)![1]!;
  const names = list === undefined ? [...text.matchAll(/^ {2}(\w+)[:,]/gm)] : [...text.matchAll(/"(\w+)"/g)];
  return names.map(([, name]) => `\`${name}\``).join(", ");
}

/** The members of an interface and of those that it extends. */
function membersOf(type: string): OptionDoc[] {
  const { body, whole } = declarationOf("interface", type);
  const head = body.slice(0, body.indexOf("{")).replace(/^<[^>]*>/, "");
  const parents = [...head.matchAll(/(?:extends|,)\s+(\w+)/g)].map(([, parent]) => parent!);
  const members = [...body.matchAll(/\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*readonly (\w+)(\??): ([^;]+);/g)].map(
    ([, comment, name, optional, type]) => ({
      name: name!,
      type: namesOf(type!.replace(/\s+/g, " "), whole),
      isRequired: optional === "",
      ...splitDefault(readComment(`/**${comment}*/`).text),
    }),
  );
  return [...members, ...parents.flatMap(membersOf)];
}

/** What is known of a ready loss from its source. */
export function lossDoc(name: string): LossDoc {
  const { file, whole, comment, body } = declarationOf("function|const", name);
  const { text, tags } = readComment(comment);
  const signature = body.match(/options: ([\s\S]*?)(?: = \{\})?,?\s*\)/)?.[1] ?? "";
  const types = signature.replaceAll("<K>", "").match(/\{[^}]*\}|\w+/g) ?? [];
  const options = new Map<string, OptionDoc>();
  for (const type of types) {
    for (const option of type.startsWith("{") ? inlineMembers(type) : membersOf(type)) {
      const inCode = defaultInCode(option.name, body, whole);
      const tag = tags.get(`options.${option.name}`);
      const known = { ...options.get(option.name), ...option, ...(tag !== undefined && splitDefault(tag)) };
      options.set(option.name, {
        ...known,
        default: inCode.own ?? known.default ?? inCode.shared,
      });
    }
  }
  return { file: `src/losses/${file}`, text, options: [...options.values()] };
}

const inlineMembers = (type: string): OptionDoc[] =>
  [...type.matchAll(/readonly (\w+)(\??): ([^;}]+)/g)].map(([, name, optional, type]) => ({
    name: name!,
    type: `\`${type!.trim()}\``,
    isRequired: optional === "",
    default: undefined,
    meaning: "",
  }));
