// The step "packages": node_modules as package-lock.json says.
import fs from "node:fs";
import path from "node:path";
import { SetupFailure } from "./failure.mjs";
import { run, tail, which } from "./programs.mjs";
import { Progress } from "./report.mjs";

const INSTALLED = "node_modules/.package-lock.json"; // npm's own record, written when an installation is whole

/**
 * @typedef {{ version?: string, integrity?: string, optional?: boolean, link?: boolean,
 *   os?: string[], cpu?: string[], libc?: string[] }} Package
 */

/**
 * Whether npm's record of what is installed agrees with the lockfile, whoever installed it.
 * @param {string} root
 */
export function packagesAreCurrent(root) {
  const wanted = readPackages(path.join(root, "package-lock.json"));
  const installed = readPackages(path.join(root, INSTALLED));
  if (!wanted || !installed) return false;
  return Object.entries(wanted).every(([place, wish]) => {
    if (place === "") return true; // the project itself
    const found = installed[place];
    if (!found) return wish.optional === true && !isForThisSystem(wish);
    return found.version === wish.version && found.integrity === wish.integrity;
  });
}

/** @param {string} root */
export async function installPackages(root) {
  fs.rmSync(path.join(root, INSTALLED), { force: true }); // an interrupted installation must not look whole
  const progress = new Progress("installing the packages of package-lock.json");
  const [program, args] = npm();
  const { code, output } = await run(
    program,
    [...args, "ci", "--no-audit", "--no-fund", "--loglevel=error"],
    {
      cwd: root,
      onLine: (line) => progress.update(line),
    },
  );
  progress.pause();
  if (code !== 0) throw failureOf(code, output);
  progress.done();
}

/** npm as it was called, else the one on PATH. */
function npm() {
  const caller = process.env.npm_execpath;
  if (caller && /npm-cli\.[cm]?js$/.test(caller)) {
    return /** @type {[string, string[]]} */ ([process.execPath, [caller]]);
  }
  const program = which("npm");
  if (!program)
    throw new SetupFailure(
      "npm is missing; install Node.js 20 or newer together with npm, then run this again",
    );
  return /** @type {[string, string[]]} */ ([program, []]);
}

/** @param {number} code @param {string} output */
function failureOf(code, output) {
  const errorCode = /npm (?:error|ERR!) code (\S+)/.exec(output)?.[1];
  if (
    /^(ENOTFOUND|EAI_AGAIN|ECONN|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET|FETCH_ERROR)/.test(
      errorCode ?? "",
    )
  ) {
    return new SetupFailure(
      `npm could not reach its package registry (${errorCode}); check the network and the proxy (npm config get proxy), then run this again`,
    );
  }
  if (errorCode === "ENOSPC")
    return new SetupFailure("the disk is full; make room for about 250 MB, then run this again");
  process.stderr.write(`${tail(output)}\n`);
  return new SetupFailure(`npm ci failed (${errorCode ?? `exit code ${code}`}); its output is above`);
}

/** @param {string} file @returns {Record<string, Package> | undefined} */
function readPackages(file) {
  try {
    return JSON.parse(fs.readFileSync(file, "utf8")).packages;
  } catch {
    return undefined;
  }
}

/** Whether an optional package names this system: then its absence means that an installation was cut short. */
function isForThisSystem(/** @type {Package} */ { os, cpu, libc }) {
  if (!os && !cpu) return false;
  const libcHere = process.platform === "linux" ? (isGlibc() ? "glibc" : "musl") : undefined;
  return (
    (os?.includes(process.platform) ?? true) &&
    (cpu?.includes(process.arch) ?? true) &&
    (libc === undefined || (libcHere !== undefined && libc.includes(libcHere)))
  );
}

/** @type {boolean | undefined} */
let glibc;

export function isGlibc() {
  if (glibc === undefined) {
    const report = /** @type {{ header: { glibcVersionRuntime?: string } }} */ (process.report.getReport());
    glibc = report.header.glibcVersionRuntime !== undefined;
  }
  return glibc;
}
