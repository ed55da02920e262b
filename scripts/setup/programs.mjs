// Finding programs on PATH, running them, and what to print when they fail.
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { noteChild } from "./lock.mjs";

/**
 * The full path of a program, or undefined if PATH has none.
 * @param {string} program a name, or a path with a slash
 */
export function which(program) {
  const folders = program.includes("/")
    ? [""]
    : (process.env.PATH ?? "").split(path.delimiter).filter(Boolean);
  for (const folder of folders) {
    const candidate = path.resolve(folder, program);
    try {
      fs.accessSync(candidate, fs.constants.X_OK);
      if (fs.statSync(candidate).isFile()) return candidate;
    } catch {
      // not here: the next folder
    }
  }
  return undefined;
}

/**
 * Runs a program to its end and hands on each line that it prints. Signals that end set-up end the program too.
 * @param {string} program
 * @param {string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, onLine?: (line: string) => void, stderr?: "inherit" }} [options]
 *   `stderr: "inherit"` lets the program print its own progress
 * @returns {Promise<{ code: number, output: string }>} the exit code, and what it printed to both streams
 */
export async function run(program, args, { cwd, env, onLine, stderr } = {}) {
  const child = spawn(program, args, { cwd, env, stdio: ["ignore", "pipe", stderr ?? "pipe"] });
  if (child.pid !== undefined) noteChild(child.pid);
  /** @type {NodeJS.Signals | undefined} */
  let ended;
  const end = (/** @type {NodeJS.Signals} */ signal) => {
    ended = signal;
    child.kill(signal);
  };
  const signals = /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"]);
  for (const signal of signals) process.on(signal, end);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    let rest = "";
    stream?.setEncoding("utf8").on("data", (/** @type {string} */ text) => {
      output += text;
      const lines = (rest + text).split(/\r?\n/);
      rest = lines.pop() ?? "";
      if (onLine) lines.forEach(onLine);
    });
  }
  try {
    const code = await new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code, signal) =>
        resolve(code ?? 128 + (os.constants.signals[signal ?? "SIGKILL"] ?? 0)),
      );
    });
    return { code, output };
  } finally {
    for (const signal of signals) process.off(signal, end);
    if (ended) process.exit(128 + os.constants.signals[ended]);
  }
}

/** The last lines of a failed program's output, for printing above the sentence that names the failure. */
export function tail(/** @type {string} */ output, lines = 60) {
  return output.trimEnd().split("\n").slice(-lines).join("\n");
}
