// The step "libtorch": finds a libtorch of the pinned minor version, or fetches one into the cache.
//
// The order: LIBTORCH, the torch of the active Python, the cache, pip. docs/install.md tells it to the reader.
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { SetupFailure } from "./failure.mjs";
import { withLock } from "./lock.mjs";
import { run } from "./programs.mjs";
import { Progress, say } from "./report.mjs";
import { readStamp, writeStamp } from "./stamp.mjs";
import { findPython } from "./tools.mjs";

const FETCH = fileURLToPath(new URL("../libtorch/fetch.py", import.meta.url));
const SHARED = process.platform === "darwin" ? "dylib" : "so";
const PARTS = ["include/ATen/ATen.h", `lib/libtorch_cpu.${SHARED}`, `lib/libc10.${SHARED}`];

/** @typedef {{ folder: string, version: string }} Libtorch */

/**
 * The version that is pinned in package.json, or the one that TOKENGRAD_LIBTORCH_VERSION tries instead.
 * @param {string} root
 * @returns {string} as in "2.13.0"
 */
function pinnedVersion(root) {
  const manifest = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8"));
  return process.env.TOKENGRAD_LIBTORCH_VERSION || manifest.config.libtorch;
}

/** @param {string} version as in "2.13.0+cpu" @returns {string} as in "2.13" */
function minorOf(version) {
  return version.split(".").slice(0, 2).join(".");
}

/**
 * What is wrong with a folder as a libtorch, and its version.
 * @param {string} folder
 * @returns {{ missing: string[], version: string | undefined }}
 */
function inspect(folder) {
  return {
    missing: PARTS.filter((part) => !fs.existsSync(path.join(folder, part))),
    version: versionOf(folder),
  };
}

/** @param {string} folder */
function versionOf(folder) {
  for (const header of [
    "include/torch/headeronly/version.h",
    "include/torch/csrc/api/include/torch/version.h",
  ]) {
    const text = readIfThere(path.join(folder, header));
    const numbers = ["MAJOR", "MINOR", "PATCH"].map(
      (part) => text.match(`TORCH_VERSION_${part} (\\d+)`)?.[1],
    );
    if (numbers.every(Boolean)) return numbers.join(".");
  }
  return /__version__ = '([^']+)'/.exec(readIfThere(path.join(folder, "version.py")))?.[1];
}

/** @param {string} file */
function readIfThere(file) {
  return fs.existsSync(file) ? fs.readFileSync(file, "utf8") : "";
}

/**
 * The libtorch on this machine that is to be used; undefined if one has to be fetched.
 * @param {string} root
 * @returns {Libtorch | undefined}
 */
export function locateLibtorch(root) {
  const pinned = pinnedVersion(root);
  if (process.env.LIBTORCH) return named(process.env.LIBTORCH, pinned);
  const key = searchKey(pinned);
  const last = JSON.parse(readStamp(root, "libtorch") ?? "null");
  if (last?.key === key && fits(last.folder, pinned)) return { folder: last.folder, version: last.version };
  const found = ofPython(pinned) ?? cached(pinned);
  writeStamp(root, "libtorch", found && JSON.stringify({ ...found, key }));
  return found;
}

/** What decides where libtorch is found: while it stays the same, the folder found last is kept. */
function searchKey(/** @type {string} */ pinned) {
  const { VIRTUAL_ENV, CONDA_PREFIX } = process.env;
  return JSON.stringify([pinned, cacheFolder(), VIRTUAL_ENV, CONDA_PREFIX, findPython()]);
}

/** @param {string} folder @param {string} pinned */
function fits(folder, pinned) {
  const { missing, version } = inspect(folder);
  return missing.length === 0 && version !== undefined && minorOf(version) === minorOf(pinned);
}

/** @param {string} value @param {string} pinned @returns {Libtorch} */
function named(value, pinned) {
  const folder = path.resolve(value);
  const { missing, version } = inspect(folder);
  if (missing.length > 0) {
    const inside = ["torch", "libtorch"]
      .map((name) => path.join(folder, name))
      .find((it) => fits(it, pinned));
    const remedy = inside
      ? `set LIBTORCH=${inside}`
      : "name a folder that has include/ and lib/, or unset LIBTORCH";
    const lacks = fs.existsSync(folder) ? `it has no ${missing.join(", no ")}` : "it does not exist";
    throw new SetupFailure(`LIBTORCH=${value} is no libtorch folder: ${lacks}; ${remedy}`);
  }
  if (!version || minorOf(version) !== minorOf(pinned)) {
    throw new SetupFailure(
      `LIBTORCH=${value} is of the wrong version: found ${version ?? "none"}, expected ${minorOf(pinned)}; ` +
        "unset LIBTORCH to let set-up find or fetch the right one",
    );
  }
  return { folder, version };
}

/** @param {string} pinned @returns {Libtorch | undefined} */
function ofPython(pinned) {
  const python = findPython();
  if (!python) return undefined;
  const code =
    "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')";
  const answer = spawnSync(python, ["-c", code], { encoding: "utf8" });
  const folder = answer.stdout?.trim();
  if (answer.status !== 0 || !folder) return undefined;
  const { missing, version } = inspect(folder);
  if (missing.length === 0 && version && minorOf(version) === minorOf(pinned)) return { folder, version };
  const why = missing.length > 0 ? `it has no ${missing[0]}` : `it is ${version}, not ${minorOf(pinned)}`;
  say(`passing over the torch of ${python}: ${why}`);
  return undefined;
}

function cacheFolder() {
  const { TOKENGRAD_CACHE, XDG_CACHE_HOME } = process.env;
  return path.resolve(
    TOKENGRAD_CACHE || path.join(XDG_CACHE_HOME || path.join(os.homedir(), ".cache"), "tokengrad"),
  );
}

/** @param {string} pinned */
function cachePlace(pinned) {
  return path.join(cacheFolder(), `libtorch-${pinned}-${process.platform}-${process.arch}`);
}

/** @param {string} pinned @returns {Libtorch | undefined} */
function cached(pinned) {
  const folder = path.join(cachePlace(pinned), "torch");
  const { missing, version } = inspect(folder);
  return missing.length === 0 && version ? { folder, version } : undefined;
}

/**
 * Fetches libtorch through pip; a run that fetches the same at the same time is waited for.
 * @param {string} root
 * @returns {Promise<Libtorch>}
 */
export async function fetchLibtorch(root) {
  const pinned = pinnedVersion(root);
  const cache = cacheFolder();
  try {
    fs.mkdirSync(cache, { recursive: true });
    fs.accessSync(cache, fs.constants.W_OK);
  } catch (error) {
    const { code } = /** @type {NodeJS.ErrnoException} */ (error);
    throw new SetupFailure(
      `the cache ${cache} cannot be written (${code}); set TOKENGRAD_CACHE to a folder of yours`,
    );
  }
  await withLock(path.join(cache, "lock"), "a fetch of libtorch", async () => {
    if (!cached(pinned)) await fetchInto(cachePlace(pinned), pinned);
  });
  const found = locateLibtorch(root);
  if (!found)
    throw new SetupFailure(`internal: ${cachePlace(pinned)} was fetched and is no libtorch ${pinned}`);
  return found;
}

/** @param {string} place @param {string} version */
async function fetchInto(place, version) {
  fs.rmSync(place, { recursive: true, force: true }); // something is missing in it: see `cached`
  const progress = new Progress(`fetching libtorch ${version} (once, into ${path.dirname(place)})`);
  const python = /** @type {string} */ (findPython());
  const { code, output } = await run(python, ["-B", FETCH, version, place], { stderr: "inherit" });
  if (code !== 0) throw new SetupFailure(output.trim() || `fetching libtorch ended with exit code ${code}`);
  progress.done();
}
