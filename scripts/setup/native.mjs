// The step "native": the addons, built by CMake (through cmake-js) and put into build/Release.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { SetupFailure } from "./failure.mjs";
import { run, tail, which } from "./programs.mjs";
import { Progress } from "./report.mjs";
import { hashOf, readStamp, STATE, writeStamp } from "./stamp.mjs";
import { findCompiler } from "./tools.mjs";

const ADDONS = ["tokengrad.node", "trainer.node"];
const RELEASE = "build/Release";
const LINK = "build/libtorch"; // where the addons look for libtorch: their run path names it
const SOURCES = [
  "native/core",
  "native/addon",
  "native/napi",
  "native/trainer",
  "CMakeLists.txt",
  "node_modules/node-addon-api/package.json",
  "node_modules/node-api-headers/package.json",
];

/** @typedef {import("./libtorch.mjs").Libtorch} Libtorch */

/** @param {string} root @param {Libtorch} libtorch */
function inputsOf(root, libtorch) {
  const { folder, version } = libtorch;
  return hashOf(root, SOURCES, folder, version, process.env.CXX ?? "", process.platform, process.arch);
}

/** @param {string} root @param {Libtorch} libtorch */
export function nativeIsCurrent(root, libtorch) {
  return (
    ADDONS.every((addon) => fs.existsSync(path.join(root, RELEASE, addon))) &&
    linkTarget(path.join(root, LINK)) === libtorch.folder &&
    readStamp(root, "native") === inputsOf(root, libtorch)
  );
}

/** @param {string} root @param {Libtorch} libtorch */
export async function buildAddons(root, libtorch) {
  const inputs = inputsOf(root, libtorch);
  writeStamp(root, "native", undefined);
  const folder = await buildNative(root, libtorch, { folder: "cmake", target: "addons" });
  for (const addon of ADDONS) place(path.join(folder, "Release", addon), path.join(root, RELEASE, addon));
  relink(path.join(root, LINK), libtorch.folder);
  addToPrebuild(root);
  writeStamp(root, "native", inputs);
}

/**
 * Configures and builds one CMake target.
 * @param {string} root
 * @param {Libtorch} libtorch
 * @param {{ folder: string, target: string, definitions?: Record<string, string> }} options
 *   `folder` is the name of CMake's folder: one for each set of definitions
 * @returns {Promise<string>} the path of CMake's folder
 */
export async function buildNative(root, libtorch, { folder, target, definitions = {} }) {
  const out = path.join(root, STATE, folder);
  const unfinished = `${out}.unfinished`;
  const generator = which("ninja") ? "Ninja" : "Unix Makefiles";
  // Make takes an object file that a killed compiler left half written for a finished one; Ninja does not.
  const spoilt = fs.existsSync(unfinished) && generator !== "Ninja";
  if (spoilt || !isOf(out, root, generator)) fs.rmSync(out, { recursive: true, force: true });
  fs.mkdirSync(out, { recursive: true });
  fs.writeFileSync(unfinished, "");

  try {
    await configureAndBuild(root, out, generator, target, libtorch, definitions);
  } finally {
    fs.rmSync(unfinished); // done or failed, it ended by itself: what it wrote is whole
  }
  return out;
}

/**
 * @param {string} root @param {string} out @param {string} generator @param {string} target
 * @param {Libtorch} libtorch @param {Record<string, string>} definitions
 */
async function configureAndBuild(root, out, generator, target, libtorch, definitions) {
  const settings = {
    LIBTORCH: libtorch.folder,
    ...(which("ccache") ? { CMAKE_CXX_COMPILER_LAUNCHER: "ccache" } : {}),
    ...definitions,
  };
  const compiler = /** @type {string} */ (findCompiler());
  await cmakeJs(root, "configuring the native code", [
    ...["configure", "--out", out, "--generator", generator, "--cc", compiler, "--cxx", compiler],
    ...Object.entries(settings).map(([name, value]) => `--CD${name}=${value}`),
  ]);
  const jobs = process.env.CMAKE_BUILD_PARALLEL_LEVEL ?? String(availableJobs());
  const title = `building the native code (${target})`;
  await cmakeJs(root, title, ["build", "--out", out, "--target", target, "--parallel", jobs]);
}

/** @param {string} root @param {string} title @param {string[]} args */
async function cmakeJs(root, title, args) {
  const progress = new Progress(title);
  const script = path.join(root, "node_modules/cmake-js/bin/cmake-js");
  const { code, output } = await run(process.execPath, [script, ...args], {
    cwd: root,
    onLine: (line) => {
      const done = /^\[\s*(\d+%|\d+\/\d+)\]/.exec(line);
      if (done) progress.update(String(done[1]));
    },
  });
  progress.pause();
  if (code !== 0) {
    const log = path.join(STATE, "native.log");
    fs.writeFileSync(path.join(root, log), output);
    process.stderr.write(`${tail(output)}\n`);
    throw new SetupFailure(`${title} failed: ${reasonOf(output)} (all output: ${log})`);
  }
  progress.done();
}

/** @param {string} output */
function reasonOf(output) {
  if (/No space left on device/.test(output))
    return "the disk is full; make room for about 500 MB and run this again";
  if (/Killed signal terminated|virtual memory exhausted|out of memory/i.test(output)) {
    return "the compiler ran out of memory; run this again with CMAKE_BUILD_PARALLEL_LEVEL=1";
  }
  return "the compiler's messages are above";
}

/** Whether CMake's folder was made for this checkout by this generator; one that was copied or changed sides is not. */
function isOf(/** @type {string} */ out, /** @type {string} */ root, /** @type {string} */ generator) {
  const file = path.join(out, "CMakeCache.txt");
  if (!fs.existsSync(file)) return false;
  const cache = fs.readFileSync(file, "utf8");
  return (
    cache.includes(`CMAKE_HOME_DIRECTORY:INTERNAL=${root}\n`) &&
    cache.includes(`CMAKE_GENERATOR:INTERNAL=${generator}\n`)
  );
}

/** Compilers to run at once: the CPUs that this process may use, and 2 GB of memory for each. */
function availableJobs() {
  let cpus = os.availableParallelism();
  try {
    const [quota, period] = fs.readFileSync("/sys/fs/cgroup/cpu.max", "utf8").split(" ").map(Number);
    if (quota && period) cpus = Math.min(cpus, Math.ceil(quota / period));
  } catch {
    // no limit by a control group
  }
  return Math.max(1, Math.min(cpus, Math.floor(os.totalmem() / 2e9)));
}

/** Copies a file in one step, so that a process that has the old one loaded keeps it whole. */
function place(/** @type {string} */ from, /** @type {string} */ to) {
  fs.mkdirSync(path.dirname(to), { recursive: true });
  fs.copyFileSync(from, `${to}.new`);
  fs.renameSync(`${to}.new`, to);
}

/** @param {string} link */
function linkTarget(link) {
  try {
    return fs.readlinkSync(link);
  } catch {
    return undefined;
  }
}

/** @param {string} link @param {string} target */
function relink(link, target) {
  if (linkTarget(link) === target) return;
  fs.rmSync(`${link}.new`, { force: true });
  fs.symlinkSync(target, `${link}.new`);
  fs.renameSync(`${link}.new`, link);
}

/** prebuildify takes one addon, the first; the trainer goes beside it from here. */
function addToPrebuild(/** @type {string} */ root) {
  const { PREBUILD_PLATFORM, PREBUILD_ARCH } = process.env;
  if (!PREBUILD_PLATFORM || !PREBUILD_ARCH) return;
  const folder = path.join(root, "prebuilds", `${PREBUILD_PLATFORM}-${PREBUILD_ARCH}`);
  place(path.join(root, RELEASE, "trainer.node"), path.join(folder, "trainer.node"));
}
