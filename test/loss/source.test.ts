// The source line as users of the package see it: from dist, with and without source maps, in folders of any name.
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";

const root = join(import.meta.dirname, "../..");

test.each([[], ["--enable-source-maps"]])("an error names the line of the user's file %j", (...flags) => {
  const folder = join(root, "dist", "my project (1) é");
  mkdirSync(folder, { recursive: true });
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "loss.mjs");
  writeFileSync(
    file,
    `import { defineLoss } from "tokengrad";
const sourceOf = (loss) => { try { defineLoss({ loss }) } catch (error) { console.log(error.source) } };
sourceOf(({ logprobs }) => logprobs > 0);
sourceOf(({ logprobs }) => Math.max(logprobs, 1));
`,
  );
  const { stdout } = spawnSync(process.execPath, [...flags, file], { cwd: root, encoding: "utf8" });
  expect(stdout.replace(/:\d+$/gm, "")).toBe(`${file}:3\n${file}:4\n`);
});
