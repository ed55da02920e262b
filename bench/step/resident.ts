// How much memory this process holds.
import { existsSync, readFileSync } from "node:fs";

const STATUS = "/proc/self/status";

/** Resident now. @unit MiB */
export const residentNow = (): number => process.memoryUsage.rss() / 2 ** 20;

/**
 * Resident at most. Linux has `VmHWM`, since `maxRSS` there also counts what the parent held when it started this process.
 *
 * @unit MiB
 */
export function residentPeak(): number {
  const line = existsSync(STATUS) ? /^VmHWM:\s*(\d+) kB$/m.exec(readFileSync(STATUS, "utf8")) : null;
  return (line === null ? process.resourceUsage().maxRSS : Number(line[1])) / 2 ** 10;
}
