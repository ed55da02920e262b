// Finds and loads the native addons.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { TokengradError } from "./errors.ts";

const REMEDY = "to build the addon: npx node-gyp rebuild";

/** An addon could not be loaded. The message lists every path that was tried, why it failed, and a remedy. */
export class LoadError extends TokengradError {
  readonly attempts: readonly { readonly path: string; readonly reason: string }[];

  constructor(attempts: LoadError["attempts"], options?: { cause?: unknown }) {
    const tried = attempts.map(({ path, reason }) => `  ${path}: ${reason}`).join("\n");
    super("ERR_LOAD", `the native addon did not load; tried\n${tried}\n${REMEDY}`, options);
    this.attempts = attempts;
  }
}

/** libtorch has another minor version than the addon was compiled for. */
export class LibtorchVersionError extends TokengradError {
  readonly found: string;
  /** As `major.minor`. */
  readonly expected: string;

  constructor(found: string, expected: string, options?: { cause?: unknown }) {
    super("ERR_LIBTORCH_VERSION", `libtorch: expected version ${expected}, got ${found}; ${REMEDY}`, options);
    this.found = found;
    this.expected = expected;
  }
}

const root = fileURLToPath(new URL("../", import.meta.url));

/** Where an addon may lie: one built here first, then one that came with the package. */
function candidates(name: string): string[] {
  const prebuilt = join(root, "prebuilds", `${process.platform}-${process.arch}`);
  const shipped = existsSync(prebuilt) ? readdirSync(prebuilt) : [];
  return [
    join(root, "build", "Release", `${name}.node`),
    ...shipped
      .filter((file) => file.startsWith(name) && file.endsWith(".node"))
      .map((file) => join(prebuilt, file)),
  ];
}

/** A libtorch of another version often shows as a missing symbol only: asks the one beside the addons what it is. */
function checkLibtorchBeside(cause: unknown): void {
  const folder = join(root, "build", "libtorch");
  const files = ["build-version", "version.py"].map((name) => join(folder, name)).filter(existsSync);
  const found = files.map((file) => readFileSync(file, "utf8").match(/\d+\.\d+\.\d+/)?.[0]).find(Boolean);
  const { config } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    config: { libtorch: string };
  };
  const [expected] = config.libtorch.match(/^\d+\.\d+/)!;
  if (found !== undefined && !found.startsWith(`${expected}.`))
    throw new LibtorchVersionError(found, expected, { cause });
}

/**
 * Turns that a thread of libtorch's OpenMP spins for the others before it sleeps. Left to itself it spins for
 * milliseconds, which makes every op some ten times slower as soon as anything else wants a core; not to spin at all
 * costs about a third where nothing does. These turns take some ten microseconds.
 */
const SPIN_COUNT = "10000";

/**
 * Settles how threads wait, unless the environment does. OpenMP reads it once, when it is loaded with libtorch; of a
 * worker thread's environment it knows nothing, so that this holds where the main thread loads first.
 */
function limitSpinning(): void {
  if (process.env.OMP_WAIT_POLICY === undefined) process.env.GOMP_SPINCOUNT ??= SPIN_COUNT;
}

const loaded = new Map<string, unknown>();

/**
 * Loads an addon, once.
 *
 * @throws {LoadError} if none loads, {LibtorchVersionError} if libtorch is of another version.
 */
export function loadAddon<T>(name: "tokengrad" | "trainer"): T {
  if (loaded.has(name)) return loaded.get(name) as T;
  limitSpinning();
  const require = createRequire(import.meta.url);
  const attempts: { path: string; reason: string }[] = [];
  let cause: unknown;
  for (const path of candidates(name)) {
    try {
      if (!existsSync(path)) throw new Error("there is no such file");
      loaded.set(name, require(path));
      return loaded.get(name) as T;
    } catch (error) {
      const { code, found, expected } = error as { code?: string; found?: string; expected?: string };
      if (code === "ERR_LIBTORCH_VERSION")
        throw new LibtorchVersionError(found!, expected!, { cause: error });
      attempts.push({ path, reason: (error as Error).message });
      cause = error;
    }
  }
  checkLibtorchBeside(cause);
  throw new LoadError(attempts, { cause });
}
