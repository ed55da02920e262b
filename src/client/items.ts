// Writes the items of a body's lists: fixed texts, and rows of tokens and numbers, every value of which is checked.
import { Pace } from "../pace.ts";
import type { Runs } from "../wire/columns.ts";
import type { Place } from "../wire/errors.ts";
import { TextBuilder } from "../wire/text.ts";
import type { Items } from "./body.ts";
import type { Range } from "./chunks.ts";
import type { NumberRow, TokenRow } from "./sample.ts";

/** A gradient where `weights` are 0 would be thrown away without a word. */
const IGNORED = "0, since the service ignores gradients where the weight is 0";

export class ItemWriter {
  readonly #builder: TextBuilder;
  readonly #longest: number;

  /** Rows are cut to their first `longest` values. */
  constructor(builder: TextBuilder, longest: number) {
    this.#builder = builder;
    this.#longest = longest;
  }

  /** Whether rows are cut. */
  get shortens(): boolean {
    return this.#longest < Infinity;
  }

  /** Appends text as it is. */
  text(text: string): void {
    this.#builder.text(text);
  }

  /** Ids beyond 2^53 - 1 are written as strings where the field allows it, since many readers hold numbers as doubles. */
  tokens(row: TokenRow, { path, sample }: Place, largeIds: "as strings" | "as numbers"): void {
    const rule = largeIds === "as strings" ? "quotedId" : "id";
    this.#builder.row({ values: this.#cut(row), rule, path, sample });
  }

  numbers(row: NumberRow, rule: "number" | "weight", { path, sample }: Place): void {
    this.#builder.row({ values: numbersOf(this.#cut(row)), rule, path, sample });
  }

  /** `row` holds numbers, or for `bfloat16` the bits of each; outside of `runs` they must be 0. */
  gradients(row: NumberRow, dtype: "float32" | "bfloat16", runs: Runs, { path, sample }: Place): void {
    const cut = this.#cut(row);
    const values = dtype === "bfloat16" ? cut : numbersOf(cut);
    // Where rows are cut, they have been written in full before.
    const within = this.shortens ? {} : { runs, outside: IGNORED };
    this.#builder.row({ values, rule: "number", ...within, path, sample });
  }

  #cut<Row extends ArrayLike<unknown>>(row: Row): Row {
    if (row.length <= this.#longest) return row;
    const part = ArrayBuffer.isView(row) ? "subarray" : "slice";
    return (row as unknown as Record<typeof part, (from: number, to: number) => Row>)[part](0, this.#longest);
  }
}

/** Values of numbers: as a `Uint16Array` they would be the bits of bfloat16. */
const numbersOf = (row: NumberRow) => (row instanceof Uint16Array ? new Float32Array(row) : row);

/** What an item takes, in elements of a `Pace`. */
const ITEM_ELEMENTS = 512;

/**
 * Writes a range of items, each by `item`; rows are cut to their first `longest` values.
 *
 * @throws {InputError} naming sample and position of a value that cannot be written.
 */
export async function writeItems(
  { from, to }: Range,
  item: (writer: ItemWriter, index: number) => void,
  signal: AbortSignal,
  longest = Infinity,
): Promise<Items> {
  const builder = new TextBuilder(signal);
  const writer = new ItemWriter(builder, longest);
  const pace = new Pace();
  try {
    for (let index = from; index < to && !signal.aborted; index++) {
      if (index > from) builder.text(",");
      item(writer, index);
      builder.mark();
      const settled = builder.settled();
      if (settled !== undefined) await settled;
      if (pace.due(ITEM_ELEMENTS)) await pace.rest();
    }
  } catch (error) {
    throw await builder.cancel(error);
  }
  const { chunks, bytes, marks, release } = await builder.write();
  return { from, chunks, bytes, ends: marks, release };
}
