// The frame of every command here: where the checkout is, and how a failure is told.
import { fileURLToPath } from "node:url";
import { SetupFailure } from "./failure.mjs";

/** The checkout: the folder of package.json. */
export const ROOT = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

/**
 * Runs a command; a failure that the reader can mend becomes one sentence and exit code 1.
 * @param {string} name of the command
 * @param {() => Promise<void>} body
 */
export async function command(name, body) {
  try {
    await body();
  } catch (error) {
    console.error(`tokengrad ${name}: ${sentenceOf(error)}`);
    process.exitCode = 1;
  }
}

/** @param {unknown} error */
function sentenceOf(error) {
  if (error instanceof SetupFailure) return error.message;
  const { code, path } = /** @type {NodeJS.ErrnoException} */ (error);
  if (code === "ENOSPC" || code === "EDQUOT")
    return `the disk of ${ROOT} is full; make room, then run this again`;
  if (code === "EACCES" || code === "EPERM" || code === "EROFS") {
    return `${path ?? ROOT} cannot be written (${code}); run this as the owner of ${ROOT}, or chown it to yourself`;
  }
  throw error;
}
