// Writes what was measured into results.md, which has a part for each benchmark.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { idleness, machine } from "./machine.ts";

/** The parts, in their order, by their headings. */
const PARTS = ["Losses and gradients, measured", "Whole steps, measured", "The wire, measured"] as const;

const FILE = new URL("results.md", import.meta.url);

/** In what circumstances something was measured. */
export interface Setting {
  readonly threads: number;
  /** What was run, and in which version, such as `libtorch 2.13.0`. */
  readonly versions: readonly string[];
  /** What was left out, and why. */
  readonly left: readonly string[];
  /** What else the machine did when the benchmark began: the system's load average of the minute before. */
  readonly load: number;
}

export const versions = (setting: Pick<Setting, "versions">): string =>
  [...new Set([`Node ${process.version}`, ...setting.versions])].join(", ");

/** When, how and where: what stands at the head of a part. */
function head({ threads, left, load, ...setting }: Setting): string {
  const command = ["npm run bench", ...(process.argv.length > 2 ? ["--", ...process.argv.slice(2)] : [])];
  return `${new Date().toISOString().slice(0, 10)}, \`${command.join(" ")}\`. ${machine()}; ${threads} threads for everyone;
${idleness(load)}.
${versions(setting)}.
${left.map((reason) => `\nLeft out: ${reason}.\n`).join("")}`;
}

/** Puts a part in the place of what it was before; the other parts stay as they are. */
export function writePart(title: (typeof PARTS)[number], setting: Setting, body: string): void {
  const before = existsSync(FILE) ? readFileSync(FILE, "utf8") : "";
  const parts = new Map(before.split(/^(?=# )/m).map((part) => [part.slice(2, part.indexOf("\n")), part]));
  parts.set(title, `# ${title}\n\n${head(setting)}\n${body.trimEnd()}\n`);
  const written = PARTS.flatMap((name) => parts.get(name)?.trimEnd() ?? []);
  writeFileSync(FILE, `${written.join("\n\n")}\n`);
}
