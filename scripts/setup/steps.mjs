// The steps of set-up in their order, and which of them have something to do.
import fs from "node:fs";
import path from "node:path";
import { SetupFailure } from "./failure.mjs";
import { fetchLibtorch, locateLibtorch } from "./libtorch.mjs";
import { withLock } from "./lock.mjs";
import { buildAddons, nativeIsCurrent } from "./native.mjs";
import { installPackages, isGlibc, packagesAreCurrent } from "./packages.mjs";
import { STATE } from "./stamp.mjs";
import { requireTools } from "./tools.mjs";
import { compileTypescript, typescriptIsCurrent } from "./typescript.mjs";

export const STEPS = /** @type {const} */ (["packages", "libtorch", "native", "typescript"]);

/** @typedef {typeof STEPS[number]} Step */

/**
 * Does what is left to do of the steps given; the libtorch found, if they needed one.
 * @param {string} root the checkout
 * @param {readonly Step[]} steps
 */
export async function setUp(root, steps = STEPS) {
  const wanted = new Set(steps);
  if (wanted.has("native")) wanted.add("libtorch").add("packages");
  if (wanted.has("typescript")) wanted.add("packages");
  let state = look(root, wanted);
  if (state.toDo.size === 0) return state.libtorch;
  if (wanted.has("libtorch")) requireSystem();
  return alone(root, async () => {
    state = look(root, wanted); // another run may have done it while this one waited
    const { toDo } = state;
    requireTools({ build: toDo.has("native"), fetch: toDo.has("libtorch") });
    if (toDo.has("packages")) await installPackages(root);
    const libtorch = toDo.has("libtorch") ? await fetchLibtorch(root) : state.libtorch;
    if (libtorch && toDo.has("native") && !nativeIsCurrent(root, libtorch)) await buildAddons(root, libtorch);
    if (toDo.has("typescript")) await compileTypescript(root);
    return libtorch;
  });
}

/**
 * Runs work that writes into the checkout while no other set-up does.
 * @template T
 * @param {string} root @param {() => Promise<T>} work
 */
export function alone(root, work) {
  return withLock(path.join(root, STATE, "lock"), "the set-up of this checkout", work);
}

/** @param {string} root @param {Set<Step>} wanted */
function look(root, wanted) {
  /** @type {Set<Step>} */
  const toDo = new Set();
  if (wanted.has("packages") && !packagesAreCurrent(root)) toDo.add("packages");
  const libtorch = wanted.has("libtorch") ? locateLibtorch(root) : undefined;
  if (wanted.has("libtorch") && !libtorch) toDo.add("libtorch");
  if (wanted.has("native") && !(libtorch && nativeIsCurrent(root, libtorch))) toDo.add("native");
  if (wanted.has("typescript") && !typescriptIsCurrent(root)) toDo.add("typescript");
  return { toDo, libtorch };
}

/** Ends set-up on a system for which there is no libtorch. */
function requireSystem() {
  const supported = "Linux with glibc and macOS are supported";
  if (process.platform === "win32") {
    throw new SetupFailure(`Windows is not supported (${supported}); use WSL 2: wsl --install`);
  }
  if (process.platform === "linux" && !isGlibc()) {
    const distribution = fs.existsSync("/etc/alpine-release")
      ? "Alpine Linux, whose C library is musl,"
      : "musl";
    throw new SetupFailure(
      `${distribution} is not supported (${supported}); use a distribution with glibc 2.28 or newer`,
    );
  }
}
