// Places in a text, noted while it is put together and found once it is written.
import { Turns } from "./turns.ts";

/** Texts up to this length are looked through here: a call of `byteLength` takes longer. */
const SHORT = 64;
/** Marks that are placed between two looks at the clock. */
const PIECE = 4096;

/** Bytes of a text as UTF-8. */
export function bytesOf(text: string): number {
  if (text.length > SHORT) return Buffer.byteLength(text);
  for (let i = 0; i < text.length; i++) {
    if (text.charCodeAt(i) > 0x7f) return Buffer.byteLength(text);
  }
  return text.length;
}

/** Places, each so many bytes behind the end of a row. */
export class Marks {
  readonly #rows: number[] = [];
  readonly #bytes: number[] = [];

  /** Notes the place behind `rows` rows and `bytes` of the text that follows them. */
  add(rows: number, bytes: number): void {
    this.#rows.push(rows);
    this.#bytes.push(bytes);
  }

  /**
   * The places in bytes from the start of the text.
   *
   * @param endOf Where so many rows end.
   */
  async places(endOf: (rows: number) => number): Promise<Float64Array> {
    const turns = new Turns();
    const places = new Float64Array(this.#rows.length);
    for (let begin = 0; begin < places.length; begin += PIECE) {
      // The first turn has seen the end of the writing, too.
      if (begin === PIECE || turns.over) await turns.next();
      const end = Math.min(places.length, begin + PIECE);
      for (let i = begin; i < end; i++) places[i] = endOf(this.#rows[i]!) + this.#bytes[i]!;
    }
    return places;
  }
}
