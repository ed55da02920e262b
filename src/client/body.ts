// Builds the text of a request body as a list of buffers, a slice at a time, without holding the event loop.

import { setImmediate as nextTurn } from "node:timers/promises";

/** A finished request body. */
export interface Body {
  readonly chunks: readonly Buffer[];
  /** Sum of the chunks' lengths. */
  readonly bytes: number;
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

  /** `check` is called on each new turn of the event loop and throws to give the body up. */
  constructor(check: () => void) {
    this.#check = check;
  }

  /** Appends text as it is. */
  text(text: string): void {
    this.#text += text;
    if (this.#text.length >= CHUNK_CHARACTERS) this.#flush();
  }

  /** Appends a JSON array of `length` values, each given as text by `at`. */
  async array(length: number, at: (index: number) => string): Promise<void> {
    this.text("[");
    for (let start = 0; start < length; start += SLICE_VALUES) {
      const end = Math.min(start + SLICE_VALUES, length);
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
    const chunk = Buffer.from(this.#text);
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    this.#text = "";
  }
}

/** A body that is one small JSON value. */
export function jsonBody(value: unknown): Body {
  const chunk = Buffer.from(JSON.stringify(value));
  return { chunks: [chunk], bytes: chunk.length };
}
