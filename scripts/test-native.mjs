// Builds and runs the C++ tests of native/core: `node scripts/test-native.mjs [--sanitize] [--fuzz [SECONDS]]`.
// With --sanitize they run under the address and undefined-behaviour sanitizers. --fuzz runs the fuzz target alone, under
// them too, for 300 seconds: by libFuzzer where there is a clang++ that has it.

import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { command, ROOT } from "./setup/command.mjs";
import { SetupFailure } from "./setup/failure.mjs";
import { buildNative } from "./setup/native.mjs";
import { which } from "./setup/programs.mjs";
import { alone, setUp } from "./setup/steps.mjs";
import { requireTools } from "./setup/tools.mjs";

const CORPUS = path.join(ROOT, "native/test/fuzz/corpus");

/** @typedef {import("./setup/libtorch.mjs").Libtorch} Libtorch */

/** @param {Libtorch} libtorch */
async function runTests(libtorch) {
  const sanitize = process.argv.includes("--sanitize");
  const folder = await build(libtorch, {
    folder: sanitize ? "cmake-sanitize" : "cmake",
    target: "native_tests",
    definitions: { TOKENGRAD_SANITIZE: sanitize ? "ON" : "OFF" },
  });
  return run(folder, "ctest", ["--test-dir", folder, "--output-on-failure"]);
}

/** @param {Libtorch} libtorch @param {string} seconds */
async function runFuzz(libtorch, seconds) {
  const clang = findLibFuzzer();
  if (clang) process.env.CXX = clang;
  const folder = await build(libtorch, {
    folder: clang ? "cmake-fuzz" : "cmake-sanitize",
    target: "wire_fuzz",
    definitions: { TOKENGRAD_SANITIZE: "ON", TOKENGRAD_LIBFUZZER: clang ? "ON" : "OFF" },
  });
  const program = path.join(folder, "wire_fuzz");
  if (!clang) return run(folder, program, [CORPUS, seconds]);
  // What it finds worth keeping lies beside the build, and is where the next run begins.
  const found = path.join(folder, "corpus");
  fs.mkdirSync(found, { recursive: true });
  return run(folder, program, [found, CORPUS, `-max_total_time=${seconds}`, "-print_final_stats=1"]);
}

/** A clang++ that links programs with libFuzzer and the sanitizers. */
function findLibFuzzer() {
  const clang = [process.env.CXX ?? "", "clang++"].filter((name) => name.includes("clang")).find(which);
  if (!clang) return undefined;
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "tokengrad-fuzzer-"));
  try {
    const source = path.join(folder, "probe.cpp");
    fs.writeFileSync(source, 'extern "C" int LLVMFuzzerTestOneInput(const char*, long) { return 0; }\n');
    const flags = ["-fsanitize=fuzzer,address,undefined", source, "-o", path.join(folder, "probe")];
    return spawnSync(clang, flags).status === 0 ? clang : undefined;
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
}

/** @param {Libtorch} libtorch @param {Parameters<typeof buildNative>[2]} options */
const build = (libtorch, options) => alone(ROOT, () => buildNative(ROOT, libtorch, options));

/** @param {string} folder @param {string} program @param {string[]} args */
const run = (folder, program, args) => spawnSync(program, args, { cwd: folder, stdio: "inherit" }).status;

await command("test:native", async () => {
  const libtorch = await setUp(ROOT, ["packages", "libtorch"]);
  if (!libtorch) throw new SetupFailure("internal: set-up found no libtorch");
  requireTools({ build: true, fetch: false });
  const fuzz = process.argv.indexOf("--fuzz") + 1;
  const status = fuzz > 0 ? await runFuzz(libtorch, process.argv[fuzz] ?? "300") : await runTests(libtorch);
  if (status !== 0) throw new SetupFailure("the C++ tests failed: their messages are above");
});
