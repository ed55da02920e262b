// docs/client.md tells all options, errors and calls of the client, and no others.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../..");
const docs = readFileSync(join(root, "docs/client.md"), "utf8");
const source = ["src/errors.ts", ...readdirSync(join(root, "src/client")).map((file) => `src/client/${file}`)]
  .map((file) => readFileSync(join(root, file), "utf8"))
  .join("\n");

const section = (title: string) => docs.split(/^## /m).find((text) => text.startsWith(title))!;
const first = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map((match) => match[1]!);
const sorted = (names: Iterable<string>) => [...new Set(names)].sort();

test("every error code, with its class", () => {
  const rows = section("Errors")
    .split("\n")
    .filter((line) => line.startsWith("| `"));
  const told = rows.flatMap((row) => first(row.split("|")[1]!, /`(ERR_\w+)`/g));
  const failures = first(source.match(/const FAILURES = \{(.*?)\} as const/s)![1]!, /^ {2}(\w+):/gm);
  // What a logger is told of an error that is none of tokengrad's, and the beginning of a code.
  const made = first(source, /"(ERR_[A-Z_]+)"/g).filter((code) => code !== "ERR_UNKNOWN");
  expect(sorted(told)).toEqual(sorted([...made, ...failures.map((name) => `ERR_OPERATION_${name}`)]));
  for (const name of rows.flatMap((row) => first(row.split("|")[2]!, /`(\w+Error)`/g))) {
    expect(source).toContain(`export class ${name} `);
  }
});

test("every option", () => {
  const options = source.match(/export interface ClientOptions \{(.*?)^\}/ms)![1]!;
  expect(sorted(first(section("Options"), /^\| `(\w+)`/gm))).toEqual(
    sorted(first(options, /^ {2}readonly (\w+)\?/gm)),
  );
});

test("every call of a session", () => {
  const session = source.match(/export class Session .*?^\}/ms)![0];
  for (const name of first(session, /^ {2}async (\w+)\(/gm)) {
    expect(section("Endpoints"), name).toMatch(new RegExp(`\\b${name}\\b`));
  }
});
