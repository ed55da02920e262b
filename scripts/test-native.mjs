// Builds and runs the C++ tests of native/core: `node scripts/test-native.mjs [--sanitize] [--fuzz SECONDS]`.
// With --sanitize they run under the address and undefined-behaviour sanitizers. --fuzz runs the fuzz target alone, under
// them too, for longer than the few seconds it has among the tests.

import { spawnSync } from "node:child_process";
import path from "node:path";
import { command, ROOT } from "./setup/command.mjs";
import { SetupFailure } from "./setup/failure.mjs";
import { buildNative } from "./setup/native.mjs";
import { alone, setUp } from "./setup/steps.mjs";
import { requireTools } from "./setup/tools.mjs";

await command("test:native", async () => {
  const fuzz = process.argv.indexOf("--fuzz") + 1;
  const sanitize = fuzz > 0 || process.argv.includes("--sanitize");
  const libtorch = await setUp(ROOT, ["packages", "libtorch"]);
  if (!libtorch) throw new SetupFailure("internal: set-up found no libtorch");
  requireTools({ build: true, fetch: false });
  const build = {
    folder: sanitize ? "cmake-sanitize" : "cmake",
    target: fuzz > 0 ? "wire_fuzz" : "native_tests",
    definitions: { TOKENGRAD_SANITIZE: sanitize ? "ON" : "OFF" },
  };
  const folder = await alone(ROOT, () => buildNative(ROOT, libtorch, build));
  const [program, ...args] =
    fuzz > 0
      ? [
          path.join(folder, "wire_fuzz"),
          path.join(ROOT, "native/test/fuzz/corpus"),
          process.argv[fuzz] ?? "300",
        ]
      : ["ctest", "--test-dir", folder, "--output-on-failure"];
  const { status } = spawnSync(program, args, { cwd: folder, stdio: "inherit" });
  if (status !== 0) throw new SetupFailure("the C++ tests failed: their messages are above");
});
