// Checks what needs no run: `node scripts/check.mjs` lints, checks formats and types, and tells all that is wrong at once.
import { spawnSync } from "node:child_process";
import path from "node:path";
import { command, ROOT } from "./setup/command.mjs";
import { SetupFailure } from "./setup/failure.mjs";
import { filesIn } from "./setup/stamp.mjs";
import { setUp } from "./setup/steps.mjs";

const nativeSources = filesIn(ROOT, "native").filter((file) => /\.(cpp|h)$/.test(file));

/** @type {Record<string, string[]>} */
const CHECKS = {
  "lint and format (biome)": ["@biomejs/biome/bin/biome", "check", "."],
  "types (tsc)": ["typescript/bin/tsc", "-p", "."],
  "C++ format (clang-format)": ["clang-format-node/build/cli.js", "--dry-run", "--Werror", ...nativeSources],
};

await command("check", async () => {
  await setUp(ROOT, ["packages"]);
  const failed = [];
  for (const [name, [script = "", ...args]] of Object.entries(CHECKS)) {
    const program = path.join(ROOT, "node_modules", script);
    const { status } = spawnSync(process.execPath, [program, ...args], { cwd: ROOT, stdio: "inherit" });
    console.log(`check: ${name}: ${status === 0 ? "passed" : "FAILED"}`);
    if (status !== 0) failed.push(name);
  }
  if (failed.length > 0)
    throw new SetupFailure(
      `checks failed: ${failed.join("; ")}; npx biome check --write and npx clang-format -i mend formats`,
    );
});
