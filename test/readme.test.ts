// The first examples of README and docs/training.md, run as they stand against a local trainer.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startLocalTrainer } from "../src/local/index.ts";

const root = join(import.meta.dirname, "..");

test.each([
  ["README.md", 1],
  ["docs/training.md", 3],
])("the example of %s runs", async (name, lines) => {
  const readme = readFileSync(join(root, name), "utf8");
  const [, example] = readme.match(/```ts\n(import [\s\S]*?)```/)!;
  // Inside the package, so that its own name can be imported.
  const file = join(root, "dist", "readme-example.mjs");
  writeFileSync(file, example!);
  onTestFinished(() => rmSync(file));
  const trainer = await startLocalTrainer();
  onTestFinished(() => trainer.close());

  const env = { ...process.env, TOGETHER_BASE_URL: trainer.url, TOGETHER_API_KEY: trainer.apiKey };
  const child = spawn(process.execPath, [file], { cwd: root, env });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  const [code] = await once(child, "close");
  expect(output).toMatch(new RegExp(`^(loss \\d+\\.\\d+\\n){${lines}}$`));
  expect(code).toBe(0);
});
