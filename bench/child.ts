// The other end of a `Peer`, for peers in TypeScript: takes one command a line and answers each with one line of JSON.

import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Peer } from "./peer.ts";

type Command = (...words: string[]) => object | Promise<object>;

/** Greets with a version and answers commands until there are no more. */
export async function serve(version: string, commands: Readonly<Record<string, Command>>): Promise<void> {
  const say = (answer: object) => process.stdout.write(`${JSON.stringify(answer)}\n`);
  say({ version });
  for await (const line of createInterface(process.stdin)) {
    const [name = "", ...words] = line.split(" ");
    try {
      say(await commands[name]!(...words));
    } catch (error) {
      say({ error: String(error).split("\n")[0] });
    }
  }
}

/** Starts a peer in TypeScript, by its path below bench. */
export const startNode = (script: string, options: Parameters<typeof Peer.start>[2]): Promise<Peer> => {
  const path = fileURLToPath(new URL(script, import.meta.url));
  return Peer.start(process.execPath, [...process.execArgv, path], options);
};
