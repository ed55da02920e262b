// Builds and runs the C++ tests of native/core: `node scripts/test-native.mjs [--sanitize]`.
// With --sanitize they run under the address and undefined-behaviour sanitizers.

import { spawnSync } from "node:child_process";
import { command, ROOT } from "./setup/command.mjs";
import { SetupFailure } from "./setup/failure.mjs";
import { buildNative } from "./setup/native.mjs";
import { alone, setUp } from "./setup/steps.mjs";
import { requireTools } from "./setup/tools.mjs";

await command("test:native", async () => {
  const sanitize = process.argv.includes("--sanitize");
  const libtorch = await setUp(ROOT, ["packages", "libtorch"]);
  if (!libtorch) throw new SetupFailure("internal: set-up found no libtorch");
  requireTools({ build: true, fetch: false });
  const build = {
    folder: sanitize ? "cmake-sanitize" : "cmake",
    target: "core_test",
    definitions: { TOKENGRAD_SANITIZE: sanitize ? "ON" : "OFF" },
  };
  const folder = await alone(ROOT, () => buildNative(ROOT, libtorch, build));
  const { status } = spawnSync("ctest", ["--test-dir", folder, "--output-on-failure"], { stdio: "inherit" });
  if (status !== 0) throw new SetupFailure("the C++ tests failed: their messages are above");
});
