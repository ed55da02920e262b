// The step "typescript": src compiled to dist.
import fs from "node:fs";
import path from "node:path";
import { SetupFailure } from "./failure.mjs";
import { run } from "./programs.mjs";
import { Progress } from "./report.mjs";
import { filesIn, hashOf, readStamp, writeStamp } from "./stamp.mjs";

const INPUTS = ["src", "tsconfig.json", "tsconfig.build.json", "node_modules/typescript/package.json"];

/** @param {string} root */
function sources(root) {
  return filesIn(root, "src").filter((file) => file.endsWith(".ts") && !file.endsWith(".d.ts"));
}

/** @param {string} source a path under src @param {string} extension */
function outputOf(source, extension) {
  return source.replace(/^src/, "dist").replace(/\.ts$/, extension);
}

/** @param {string} root */
function isComplete(root) {
  return sources(root).every((source) => fs.existsSync(path.join(root, outputOf(source, ".js"))));
}

/** @param {string} root */
export function typescriptIsCurrent(root) {
  return readStamp(root, "typescript") === hashOf(root, INPUTS) && isComplete(root);
}

/** @param {string} root */
export async function compileTypescript(root) {
  const inputs = hashOf(root, INPUTS);
  writeStamp(root, "typescript", undefined);
  // The compiler trusts its record of what it wrote: without the files, the record must go too.
  if (!isComplete(root)) fs.rmSync(path.join(root, "dist/.tsbuildinfo"), { force: true });
  const progress = new Progress("compiling TypeScript");
  const tsc = path.join(root, "node_modules/typescript/bin/tsc");
  const { code, output } = await run(process.execPath, [tsc, "-p", "tsconfig.build.json"], { cwd: root });
  progress.pause();
  if (code !== 0) {
    process.stderr.write(output);
    throw new SetupFailure("compiling TypeScript failed: the compiler's messages are above");
  }
  removeOrphans(root);
  writeStamp(root, "typescript", inputs);
  progress.done();
}

/** Removes what was compiled from sources that are gone, so that nothing imports it by mistake. */
function removeOrphans(/** @type {string} */ root) {
  const wanted = new Set(
    sources(root).flatMap((source) =>
      [".js", ".js.map", ".d.ts"].map((extension) => outputOf(source, extension)),
    ),
  );
  for (const file of filesIn(root, "dist")) {
    if (!wanted.has(file) && file !== "dist/.tsbuildinfo") fs.rmSync(path.join(root, file));
  }
}
