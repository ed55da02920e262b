// The tools that set-up needs from the system, and the command that installs a missing one.
import { spawnSync } from "node:child_process";
import { SetupFailure } from "./failure.mjs";
import { which } from "./programs.mjs";

const CMAKE = [3, 20];
const PYTHON = [3, 9];
const COMPILERS = ["c++", "g++", "clang++"];

/** Names of the packages, by package manager in the order in which the managers are looked for. */
const MANAGERS = [
  {
    program: "apt-get",
    install: "apt-get update && apt-get install -y",
    names: { cmake: "cmake", compiler: "g++", make: "make", python: "python3", pip: "python3-pip" },
  },
  {
    program: "dnf",
    install: "dnf install -y",
    names: { cmake: "cmake", compiler: "gcc-c++", make: "make", python: "python3", pip: "python3-pip" },
  },
  {
    program: "brew",
    install: "brew install",
    names: { cmake: "cmake", compiler: "llvm", make: "ninja", python: "python", pip: "python" },
  },
];

/**
 * @typedef {keyof typeof MANAGERS[0]["names"]} Tool
 * @typedef {{ tool: Tool, text: string, remedy?: string }} Missing
 */

export function findPython() {
  return ["python3", "python"].map(which).find(Boolean);
}

/** The compiler to build with: CXX, else the first of the usual ones that takes C++20. */
export function findCompiler() {
  const { CXX } = process.env;
  return (CXX ? [CXX] : COMPILERS).map(which).find((program) => program && compiles(program));
}

/**
 * Ends set-up, naming all that is missing at once, unless the tools are there.
 * @param {{ build: boolean, fetch: boolean }} needs building native code; fetching libtorch through pip
 */
export function requireTools(needs) {
  const missing = [...(needs.build ? missingToBuild() : []), ...(needs.fetch ? missingToFetch() : [])];
  if (missing.length === 0) return;
  const verb = missing.length > 1 ? "are" : "is";
  const texts = missing.map(({ text }) => text);
  throw new SetupFailure(
    `${texts.join(" and ")} ${verb} missing; ${remedyFor(missing)}, then run this again`,
  );
}

/** @returns {Missing[]} */
function missingToBuild() {
  /** @type {Missing[]} */
  const missing = [];
  const program = which("cmake");
  const cmake = program && versionOf(program, /cmake version (\d+)\.(\d+)/);
  if (!cmake) missing.push({ tool: "cmake", text: `CMake ${CMAKE.join(".")} or newer` });
  else if (isOlder(cmake, CMAKE)) {
    missing.push({
      tool: "cmake",
      text: `CMake ${CMAKE.join(".")} or newer (found ${cmake.join(".")} at ${program})`,
      remedy: "install one with: python3 -m pip install --upgrade cmake",
    });
  }
  if (!findCompiler()) missing.push(missingCompiler());
  if (!which("ninja") && !which("make")) missing.push({ tool: "make", text: "make or ninja" });
  return missing;
}

/** @returns {Missing} */
function missingCompiler() {
  const { CXX } = process.env;
  if (CXX) {
    const text = `a C++20 compiler (CXX=${CXX} is none)`;
    return { tool: "compiler", text, remedy: "unset CXX or name another compiler" };
  }
  const old = COMPILERS.map(which).find(Boolean);
  if (!old) return { tool: "compiler", text: "a C++20 compiler (found none)" };
  const remedy = "install g++ 11 or clang++ 14, or newer, and name it in CXX";
  return { tool: "compiler", text: `a C++20 compiler (${old} is too old)`, remedy };
}

/** @returns {Missing[]} */
function missingToFetch() {
  const python = findPython();
  const version = python && versionOf(python, /Python (\d+)\.(\d+)/);
  /** @type {Missing} */
  const pip = { tool: "pip", text: `pip (to fetch libtorch; LIBTORCH=/folder makes it needless)` };
  if (!python || !version) {
    return [{ tool: "python", text: `Python ${PYTHON.join(".")} or newer` }, pip];
  }
  if (isOlder(version, PYTHON)) {
    const text = `Python ${PYTHON.join(".")} or newer (found ${version.join(".")} at ${python})`;
    return [{ tool: "python", text }];
  }
  return versionOf(python, /^pip (\d+)\.(\d+)/m, ["-m", "pip", "--version"]) ? [] : [pip];
}

/** @param {Missing[]} missing */
function remedyFor(missing) {
  const own = missing.flatMap(({ remedy }) => remedy ?? []);
  const tools = new Set(missing.filter(({ remedy }) => !remedy).map(({ tool }) => tool));
  return [...own, ...(tools.size > 0 ? [installCommand(tools)] : [])].join(", and ");
}

/** @param {Set<Tool>} tools */
function installCommand(tools) {
  if (process.platform === "darwin" && (tools.has("compiler") || tools.has("make"))) {
    return "install Apple's compilers with: xcode-select --install";
  }
  const manager = MANAGERS.find(({ program }) => which(program));
  if (!manager) return `install ${tools.size > 1 ? "them" : "it"} with your system's package manager`;
  const names = [...new Set([...tools].map((tool) => manager.names[tool]))].join(" ");
  const command = `${manager.install} ${names}`;
  const sudo = manager.program !== "brew" && process.getuid?.() !== 0;
  return `install with: ${sudo ? command.replace(/(^|&& )/g, "$1sudo ") : command}`;
}

/** @param {string} program @param {RegExp} pattern @param {string[]} [args] @returns {number[] | undefined} */
function versionOf(program, pattern, args = ["--version"]) {
  const { stdout } = spawnSync(program, args, { encoding: "utf8" });
  const found = pattern.exec(stdout ?? "");
  return found ? [Number(found[1]), Number(found[2])] : undefined;
}

/** @param {number[]} found @param {number[]} wanted */
function isOlder([major = 0, minor = 0], [wantedMajor = 0, wantedMinor = 0]) {
  return major < wantedMajor || (major === wantedMajor && minor < wantedMinor);
}

/** Whether a compiler takes C++20 and finds its library, tried for real: versions and defaults say too little. */
function compiles(/** @type {string} */ compiler) {
  const program =
    "#include <bit>\n#include <concepts>\n#include <span>\nstatic_assert(std::integral<int>);\n";
  const args = ["-std=c++20", "-fsyntax-only", "-x", "c++", "-"];
  return spawnSync(compiler, args, { input: program, stdio: ["pipe", "ignore", "ignore"] }).status === 0;
}
