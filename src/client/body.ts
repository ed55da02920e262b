// Builds the text of a request body as a list of buffers, a slice at a time, without holding the event loop.

import { setImmediate as nextTurn } from "node:timers/promises";

/** A finished request body, or a piece of one. */
export interface Body {
  readonly chunks: readonly Buffer[];
  /** Sum of the chunks' lengths. */
  readonly bytes: number;
}

/** The items of a JSON array without its brackets, so that any run of them can be sent on its own. */
export interface Items extends Body {
  /** Where each item ends; a comma stands between two. @unit bytes */
  readonly ends: readonly number[];
}

/** Large enough that TLS writes are few, small enough that the text of one never matters. @unit characters */
const CHUNK_CHARACTERS = 256 * 1024;
/** Values written between two looks at the clock. */
const SLICE_VALUES = 512;
/** How long the event loop may be held before others get their turn. @unit milliseconds */
const TURN_MS = 2;

export class BodyWriter {
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  #text = "";
  #turnBegan = performance.now();
  readonly #check: () => void;
  readonly #longest: number;

  /**
   * `check` is called on each new turn of the event loop and throws to give the body up. Arrays are cut to their first
   * `longest` values.
   */
  constructor(check: () => void, longest = Infinity) {
    this.#check = check;
    this.#longest = longest;
  }

  /** Whether arrays are cut. */
  get shortens(): boolean {
    return this.#longest < Infinity;
  }

  /** Bytes written so far. */
  get position(): number {
    return this.#bytes + this.#text.length;
  }

  /** Appends text as it is. It must be ASCII, which makes a character a byte. */
  text(text: string): void {
    this.#text += text;
    if (this.#text.length >= CHUNK_CHARACTERS) this.#flush();
  }

  /** Appends a JSON array of `length` values, each given as text by `at`. */
  async array(length: number, at: (index: number) => string): Promise<void> {
    const written = Math.min(length, this.#longest);
    this.text("[");
    for (let start = 0; start < written; start += SLICE_VALUES) {
      const end = Math.min(start + SLICE_VALUES, written);
      let slice = start === 0 ? "" : ",";
      for (let index = start; index < end - 1; index++) slice += `${at(index)},`;
      this.text(slice + at(end - 1));
      if (performance.now() - this.#turnBegan > TURN_MS) await this.#nextTurn();
    }
    this.text("]");
  }

  finish(): Body {
    this.#flush();
    return { chunks: this.#chunks, bytes: this.#bytes };
  }

  async #nextTurn(): Promise<void> {
    await nextTurn();
    this.#check();
    this.#turnBegan = performance.now();
  }

  #flush(): void {
    if (this.#text === "") return;
    const chunk = Buffer.from(this.#text, "latin1");
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    this.#text = "";
  }
}

/** Writes the items `from` to `to` of an array, each by `item`. */
export async function writeItems(
  writer: BodyWriter,
  from: number,
  to: number,
  item: (index: number) => Promise<void>,
): Promise<Items> {
  const ends: number[] = [];
  for (let index = from; index < to; index++) {
    if (index > from) writer.text(",");
    await item(index);
    ends.push(writer.position);
  }
  return { ...writer.finish(), ends };
}

/** Bytes of the items `from` to `to`. */
export function bytesOf({ ends }: Items, from: number, to: number): number {
  return to > from ? ends[to - 1]! - startOf(ends, from) : 0;
}

/** The items `from` to `to`: views of the same buffers. */
export function itemsBetween({ chunks, ends }: Items, from: number, to: number): Body {
  if (to <= from) return { chunks: [], bytes: 0 };
  const start = startOf(ends, from);
  const end = ends[to - 1]!;
  const parts: Buffer[] = [];
  let position = 0;
  for (const chunk of chunks) {
    const part = chunk.subarray(Math.max(0, start - position), Math.max(0, end - position));
    if (part.length > 0) parts.push(part);
    position += chunk.length;
  }
  return { chunks: parts, bytes: end - start };
}

function startOf(ends: readonly number[], item: number): number {
  return item === 0 ? 0 : ends[item - 1]! + 1;
}

/** Pieces one behind the other; text must be ASCII. */
export function join(pieces: readonly (Body | string)[]): Body {
  const bodies = pieces.map((piece) =>
    typeof piece === "string" ? { chunks: [Buffer.from(piece, "latin1")], bytes: piece.length } : piece,
  );
  return {
    chunks: bodies.flatMap(({ chunks }) => chunks).filter(({ length }) => length > 0),
    bytes: bodies.reduce((sum, { bytes }) => sum + bytes, 0),
  };
}

/** JSON in ASCII: everything else is escaped. */
export function json(value: unknown): string {
  return JSON.stringify(value).replace(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** A body that is one small JSON value. */
export const jsonBody = (value: unknown): Body => join([json(value)]);
