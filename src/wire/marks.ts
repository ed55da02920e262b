// Places in a text, noted while it is put together and found once it is written.
import { Pace } from "../pace.ts";
import type { NativeWritten } from "./binding.ts";

/** Texts up to this length are looked through here: a call of `byteLength` takes longer. */
const SHORT = 64;

/** Bytes of a text as UTF-8. */
export function utf8Length(text: string): number {
  if (text.length > SHORT) return Buffer.byteLength(text);
  for (let i = 0; i < text.length; i++) {
    if (text.charCodeAt(i) > 0x7f) return Buffer.byteLength(text);
  }
  return text.length;
}

/** Places, each so many bytes behind the end of a row. */
export class Marks {
  readonly #groups: number[] = [];
  readonly #rows: number[] = [];
  readonly #bytes: number[] = [];

  /** Notes the place behind `rows` rows of a group and `bytes` of the text that follows them. */
  add(group: number, rows: number, bytes: number): void {
    this.#groups.push(group);
    this.#rows.push(rows);
    this.#bytes.push(bytes);
  }

  /** The places in bytes from the start of the text, which the groups make up. */
  async places(groups: readonly NativeWritten[]): Promise<Float64Array> {
    const pace = new Pace();
    const places = new Float64Array(this.#rows.length);
    let group = -1;
    let start = 0;
    let end = 0;
    for (let i = 0; i < places.length; i++) {
      while (group < this.#groups[i]!) {
        start = end;
        end += sum(groups[++group]!.lengths);
      }
      const rows = this.#rows[i]!;
      places[i] = start + (rows === 0 ? 0 : groups[group]!.rowEnds[rows - 1]!) + this.#bytes[i]!;
      if (pace.due(1)) await pace.rest();
    }
    return places;
  }
}

export const sum = (numbers: readonly number[]) => numbers.reduce((all, number) => all + number, 0);
