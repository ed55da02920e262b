// Finds the line of the user's code that made a node.

const here = import.meta.url.slice(0, import.meta.url.lastIndexOf("/") + 1);
const folder = here.replace(/^file:\/\//, "");

/** `file:line:column` of the nearest caller outside this folder; undefined where the stack does not tell. */
export function callerSource(): string | undefined {
  const frames = new Error().stack?.split("\n").slice(1) ?? [];
  const frame = frames.find((line) => !line.includes(folder));
  return frame?.match(/\(?((?:file:\/\/)?[^()\s]+:\d+:\d+)\)?$/)?.[1]?.replace(/^file:\/\//, "");
}
