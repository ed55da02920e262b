// Whether a process still runs, told apart from a later one that was given the same id.
import { spawnSync } from "node:child_process";
import fs from "node:fs";

/**
 * When a process began, in a form that only serves comparing; undefined when it does not run.
 * @param {number} pid
 * @returns {string | undefined}
 */
export function startOf(pid) {
  if (process.platform === "linux") {
    try {
      // The name, in parentheses, may hold spaces; after it come the state and, 20th, the start time.
      const fields = fs
        .readFileSync(`/proc/${pid}/stat`, "utf8")
        .replace(/^.*\) /s, "")
        .split(" ");
      return fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19];
    } catch {
      return undefined;
    }
  }
  const answer = spawnSync("ps", ["-o", "lstart=", "-p", String(pid)], { encoding: "utf8" });
  return answer.stdout?.trim() || undefined;
}

/** @param {number} pid @param {string} start what `startOf` gave while it ran */
export function isAlive(pid, start) {
  return startOf(pid) === start;
}
