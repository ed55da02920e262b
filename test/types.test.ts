// Axes, options and names are checked by the compiler: test/types is compiled and must have exactly the errors that it
// marks.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "..");
const compile = (file: string) =>
  spawnSync(
    process.execPath,
    [
      join(root, "node_modules/typescript/bin/tsc"),
      "--ignoreConfig",
      "--noEmit",
      "--strict",
      "--skipLibCheck",
    ].concat([
      "--target",
      "es2023",
      "--module",
      "nodenext",
      "--allowImportingTsExtensions",
      "--types",
      "node",
      file,
    ]),
    { cwd: root, encoding: "utf8" },
  );

const FILES = ["axes.ts", "losses.ts", "training.ts"];

test.each(FILES)("test/types/%s compiles with exactly the marked errors", (name) => {
  const { status, stdout } = compile(`test/types/${name}`);
  expect(stdout).toBe("");
  expect(status).toBe(0);
});

test.each(FILES)("each marked line of %s is an error of its own", (name) => {
  const folder = mkdtempSync(join(root, "test/types/unmarked-"));
  try {
    const text = readFileSync(join(root, "test/types", name), "utf8");
    const marks = text.match(/^\/\/ @ts-expect-error/gm)!.length;
    writeFileSync(
      join(folder, name),
      text.replaceAll("@ts-expect-error", "").replaceAll('"../../src/', '"../../../src/'),
    );
    const errors = new Set(compile(join(folder, name)).stdout.match(/\w+\.ts\(\d+/g));
    expect(errors.size).toBe(marks);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
