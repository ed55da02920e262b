// `tokengrad losses`: lists the ready losses, or shows one of them.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Command } from "commander";
import { FAMILIES, LOSSES } from "../losses/catalogue.ts";
import { checkNames } from "../names.ts";

const folder = join(import.meta.dirname, "../../docs/losses");
const pageOf = (name: string) => readFile(join(folder, `${name}.md`), "utf8");

/** The words before the formula: up to the first colon or full stop that ends a word. */
const summaryOf = (page: string) => page.match(/## Formula\n\n((?:\([^)]*\)|[^:.(]|[:.](?!\s))+)/)?.[1] ?? "";

export const lossesCommand = (): Command =>
  new Command("losses")
    .description("list the ready losses, or show one: formula, options, metrics and the traced program")
    .argument("[name]", "name of a loss, such as dpo")
    .action(async (name: string | undefined) => {
      process.stdout.write(name === undefined ? await list() : await show(name));
    });

async function list(): Promise<string> {
  const width = Math.max(...Object.keys(LOSSES).map((name) => name.length));
  const families = Object.entries(FAMILIES).map(async ([family, losses]) => {
    const lines = Object.keys(losses).map(
      async (name) => `  ${name.padEnd(width)}  ${summaryOf(await pageOf(name))}`,
    );
    return [family, ...(await Promise.all(lines))].join("\n");
  });
  return `${(await Promise.all(families)).join("\n\n")}\n`;
}

async function show(given: string): Promise<string> {
  const name = given.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  checkNames("losses", { [name]: name }, Object.keys(LOSSES));
  const page = (await pageOf(name)).replace(/^<!--.*-->\n\n/, "").replace(/## Example[\s\S]*$/, "");
  return `${page}## Traced program, with default options\n\n${LOSSES[name]!()}\n`;
}
