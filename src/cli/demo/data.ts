// Reads the demo's text and preference pairs and turns them into tokens: one per byte, as the local trainer's model
// takes them.
import { readFile } from "node:fs/promises";
import { describe, InputError } from "../../errors.ts";
import { checkNames } from "../../names.ts";

/** The end-of-text token of the local model; tokens below it are bytes. */
const END_OF_TEXT = 256;

/** Tokens of a text: its UTF-8 bytes. */
export const encodeText = (text: string): number[] => [...Buffer.from(text, "utf8")];

/** The text of tokens; those that are no bytes are left out. */
export const decodeTokens = (tokens: Iterable<number>): string =>
  Buffer.from([...tokens].filter((token) => token < END_OF_TEXT)).toString("utf8");

export interface Pair {
  readonly prompt: string;
  readonly chosen: string;
  readonly rejected: string;
}

const KEYS = ["prompt", "chosen", "rejected"] as const;

/** Fewest pairs that leave enough of them to measure on. */
const MIN_PAIRS = 50;

/**
 * Reads preference pairs from a JSONL file with `prompt`, `chosen` and `rejected` on each line; blank lines are passed
 * over.
 *
 * @param context Longest prompt and answer together, in tokens.
 * @throws {InputError} naming the file and line at fault.
 */
export async function readPairs(path: string, context: number): Promise<Pair[]> {
  const lines = (await readText(path)).split("\n");
  const pairs = lines.flatMap((line, index) =>
    line.trim() === "" ? [] : [parsePair(line, `${path}:${index + 1}`, context)],
  );
  if (pairs.length < MIN_PAIRS) {
    throw new InputError(path, `expected at least ${MIN_PAIRS} pairs, got ${pairs.length}`);
  }
  return pairs;
}

function parsePair(line: string, place: string, context: number): Pair {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw new InputError(place, `expected a JSON object, got ${(error as Error).message}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new InputError(place, `expected a JSON object, got ${describe(value)}`);
  }
  checkNames(place, value, KEYS);
  const pair = value as Pair;
  for (const key of KEYS) {
    if (typeof pair[key] !== "string" || pair[key] === "") {
      throw new InputError(`${place}: ${key}`, `expected a text, got ${describe(pair[key])}`);
    }
  }
  if (pair.chosen === pair.rejected)
    throw new InputError(place, "expected two answers, got the same one twice");
  const length =
    encodeText(pair.prompt).length +
    Math.max(encodeText(pair.chosen).length, encodeText(pair.rejected).length);
  if (length > context) {
    throw new InputError(
      place,
      `expected prompt and answer of at most ${context} bytes together, got ${length}`,
    );
  }
  return pair;
}

/** Reads a file as text; a byte order mark is left out. */
export async function readText(path: string): Promise<string> {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await readFile(path));
  } catch (error) {
    throw new InputError(path, `expected a readable file of UTF-8 text, got ${(error as Error).message}`);
  }
}

/** Splits items into those to train on and those held out: every fifth is held out. */
export const holdOut = <T>(items: readonly T[]): { train: T[]; heldOut: T[] } => ({
  train: items.filter((_, index) => index % 5 !== 4),
  heldOut: items.filter((_, index) => index % 5 === 4),
});
