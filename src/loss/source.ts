// Finds the line of the user's code that made a node.
import { fileURLToPath } from "node:url";

/** This folder, and the one that source maps name instead of it. */
const here = fileURLToPath(new URL("./", import.meta.url));
const own = [here, here.replace(/([\\/])dist([\\/]loss[\\/])$/, "$1src$2")];

/** `file:line:column` of a line of a stack; undefined of frames that have none. */
function locationOf(line: string): string | undefined {
  const frame = line.trim();
  const text = frame.endsWith(")")
    ? frame.slice(frame.indexOf(" (") + 2, -1)
    : frame.replace(/^at (async )?/, "");
  const [, file, position] = text.match(/^(.+?)(:\d+:\d+)$/) ?? [];
  if (file === undefined || position === undefined) return undefined;
  return (file.startsWith("file://") ? fileURLToPath(file) : file) + position;
}

/** `file:line:column` of the nearest caller outside this folder; undefined where the stack does not tell. */
export function callerSource(): string | undefined {
  const locations = (new Error().stack?.split("\n").slice(1) ?? []).map(locationOf);
  return locations.find(
    (location) => location !== undefined && !own.some((folder) => location.startsWith(folder)),
  );
}
