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
    if (!(error instanceof SetupFailure)) throw error;
    console.error(`tokengrad ${name}: ${error.message}`);
    process.exitCode = 1;
  }
}
