// Places in a text, noted while it is put together and found once it is written.
import { Pace } from "../pace.ts";
import type { NativeWritten } from "./binding.ts";

/** Texts up to this length are looked through here: a call of `byteLength` takes longer. */
const SHORT = 64;

/** Marks of a piece. */
const MARKS = 1024;

/** Bytes of a text as UTF-8. */
export function utf8Length(text: string): number {
  if (text.length > SHORT) return Buffer.byteLength(text);
  for (let i = 0; i < text.length; i++) {
    if (text.charCodeAt(i) > 0x7f) return Buffer.byteLength(text);
  }
  return text.length;
}

/** Places, each so many bytes behind the end of a row. There may be many, so that they are kept in pieces. */
export class Marks {
  readonly #pieces: Float64Array[] = [];
  #last = new Float64Array(0);
  #used = 0;

  /** Notes the place behind `rows` rows of a group and `bytes` of the text that follows them. */
  add(group: number, rows: number, bytes: number): void {
    if (this.#used === this.#last.length) {
      this.#last = new Float64Array(3 * MARKS);
      this.#used = 0;
      this.#pieces.push(this.#last);
    }
    this.#last[this.#used++] = group;
    this.#last[this.#used++] = rows;
    this.#last[this.#used++] = bytes;
  }

  /** The places in bytes from the start of the text, which the groups make up. */
  async places(groups: readonly NativeWritten[]): Promise<Float64Array> {
    const pace = new Pace();
    const count = this.#pieces.length * MARKS - (this.#last.length - this.#used) / 3;
    const places = new Float64Array(count);
    let group = -1;
    let start = 0;
    let end = 0;
    for (let i = 0; i < count; i++) {
      const piece = this.#pieces[Math.floor(i / MARKS)]!;
      const at = 3 * (i % MARKS);
      while (group < piece[at]!) {
        start = end;
        end += sum(groups[++group]!.lengths);
      }
      const rows = piece[at + 1]!;
      places[i] = start + (rows === 0 ? 0 : groups[group]!.rowEnds[rows - 1]!) + piece[at + 2]!;
      if (pace.due(1)) await pace.rest();
    }
    return places;
  }
}

export const sum = (numbers: readonly number[]) => numbers.reduce((all, number) => all + number, 0);
