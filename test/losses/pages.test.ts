// The pages of the ready losses: up to date, complete, and with examples that run.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { pages } from "../../scripts/docs/pages.ts";
import { LOSSES } from "../../src/losses/catalogue.ts";
import * as losses from "../../src/losses/index.ts";

const root = join(import.meta.dirname, "../..");
const folder = join(root, "docs/losses");

test("the pages are what `npm run docs` makes", () => {
  const made = pages();
  expect(readdirSync(folder).sort()).toEqual(Object.keys(made).sort());
  for (const [file, text] of Object.entries(made))
    expect(readFileSync(join(folder, file), "utf8"), `${file}: run npm run docs`).toBe(text);
});

test("every exported loss has a page, with formula, options and example", () => {
  const pieces = ["combine", "groupAdvantages", "klEstimate", "sampleMean", "sampleSum"];
  expect(Object.keys(losses).filter((name) => !pieces.includes(name))).toEqual(
    expect.arrayContaining(Object.keys(LOSSES)),
  );
  for (const name of Object.keys(losses).filter((name) => !pieces.includes(name))) {
    const page = readFileSync(join(folder, `${name}.md`), "utf8");
    for (const heading of ["Formula", "Options", "Example"]) expect(page).toContain(`\n## ${heading}\n`);
    if (LOSSES[name]!().metrics.length > 0) expect(page).toContain("\n## Metrics\n");
    expect(page).not.toContain("undefined");
    const overview = readFileSync(join(root, "docs/losses.md"), "utf8");
    expect(overview).toContain(`[\`${name}\`](losses/${name}.md)`);
  }
});

test("the examples of all pages run and print a finite loss", async () => {
  // Inside the package, so that its own name can be imported.
  const scratch = mkdtempSync(join(root, "dist", "examples-"));
  onTestFinished(() => rmSync(scratch, { recursive: true }));
  const files = Object.keys(LOSSES).map((name) => {
    const [, example] = readFileSync(join(folder, `${name}.md`), "utf8").match(/```ts\n([\s\S]*?)```/)!;
    const file = join(scratch, `${name}.mjs`);
    writeFileSync(file, example!);
    return pathToFileURL(file).href;
  });
  const main = join(scratch, "main.mjs");
  writeFileSync(main, files.map((file) => `await import(${JSON.stringify(file)});`).join("\n"));
  const child = spawn(process.execPath, [main], { cwd: root });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  const [code] = await once(child, "close");
  expect(code, output).toBe(0);
  expect(output.match(/^-?\d\S* \{/gm)).toHaveLength(files.length);
  expect(output).not.toMatch(/NaN|Infinity/);
});
