// What the client takes from the environment besides key and address, as the service's own client does.

import { InputError } from "../errors.ts";
import type { Logger } from "./events.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** `TOGETHER_CUSTOM_HEADERS`: lines of `Name: value`. */
export function environmentHeaders({ TOGETHER_CUSTOM_HEADERS = "" }: Environment): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const line of TOGETHER_CUSTOM_HEADERS.split("\n")) {
    if (line.trim() === "") continue;
    const colon = line.indexOf(":");
    if (colon < 1) throw new InputError("TOGETHER_CUSTOM_HEADERS", "expected lines of `Name: value`");
    headers[line.slice(0, colon).trim()] = line.slice(colon + 1).trim();
  }
  return headers;
}

/** `TOGETHER_LOG`: `info` or `debug`; lines go to stderr. */
export function environmentLogger({ TOGETHER_LOG: level }: Environment): Logger | undefined {
  if (level !== "info" && level !== "debug") return undefined;
  const write = (message: string) => void process.stderr.write(`tokengrad: ${message}\n`);
  return { debug: level === "debug" ? write : () => {}, info: write, warn: write };
}
