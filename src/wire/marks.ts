// Places in a text, noted while it is put together and found once it is written.
import { Turns } from "./turns.ts";

/** Marks that are placed between two looks at the clock. */
const PIECE = 1024;

/** Marks, each so many characters behind the end of a row. */
export class Marks {
  readonly #rows: number[] = [];
  readonly #characters: number[] = [];

  /** Notes the place behind `rows` rows and `characters` of the text that follows them. */
  add(rows: number, characters: number): void {
    this.#rows.push(rows);
    this.#characters.push(characters);
  }

  /**
   * The places in bytes from the start of the text.
   *
   * @param textBehind The text behind so many rows.
   * @param endOf Where so many rows end.
   */
  async places(textBehind: (rows: number) => string, endOf: (rows: number) => number): Promise<Float64Array> {
    const turns = new Turns();
    const places = new Float64Array(this.#rows.length);
    let character = 0;
    for (let i = 0; i < places.length; i++) {
      const rows = this.#rows[i]!;
      // Of several marks in one text, each goes on from the one before it.
      const same = i > 0 && this.#rows[i - 1] === rows;
      const from = same ? character : 0;
      character = this.#characters[i]!;
      const start = same ? places[i - 1]! : endOf(rows);
      places[i] = start + Buffer.byteLength(textBehind(rows).slice(from, character));
      if (i % PIECE === PIECE - 1 && turns.over) await turns.next();
    }
    return places;
  }
}
