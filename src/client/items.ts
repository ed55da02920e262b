// Writes the items of a body's lists: fixed texts, and rows of tokens and numbers, every value of which is checked.
import { Pace } from "../pace.ts";
import type { Place } from "../wire/rows.ts";
import { TextBuilder } from "../wire/text.ts";
import { idValues, isIds, isNumbers, numberValues } from "../wire/values.ts";
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
  async tokens(row: TokenRow, { path, sample }: Place, largeIds: "as strings" | "as numbers"): Promise<void> {
    const cut = this.#cut(row);
    const values = isIds(cut) ? cut : await idValues(cut, { path, sample });
    const rule = largeIds === "as strings" ? "quotedId" : "id";
    await this.#builder.row({ values, rule, path, sample });
  }

  async numbers(row: NumberRow, rule: "number" | "weight", { path, sample }: Place): Promise<void> {
    const cut = this.#cut(row);
    const values = isNumbers(cut) ? cut : await numberValues(cut, { path, sample });
    await this.#builder.row({ values, rule, path, sample });
  }

  /** `row` holds numbers, or for `bfloat16` the bits of each; outside of `runs` they must be 0. */
  async gradients(
    row: NumberRow,
    dtype: "float32" | "bfloat16",
    runs: Uint32Array,
    { path, sample }: Place,
  ): Promise<void> {
    const cut = this.#cut(row);
    const typed = dtype === "bfloat16" ? (cut as Uint16Array) : isNumbers(cut) ? cut : undefined;
    const values = typed ?? (await numberValues(cut, { path, sample }));
    // Where rows are cut, they have been written in full before.
    await this.#builder.row(
      this.shortens
        ? { values, rule: "number", path, sample }
        : { values, rule: "number", runs, outside: IGNORED, path, sample },
    );
  }

  #cut<Row extends ArrayLike<unknown>>(row: Row): Row {
    if (row.length <= this.#longest) return row;
    const part = ArrayBuffer.isView(row) ? "subarray" : "slice";
    return (row as unknown as Record<typeof part, (from: number, to: number) => Row>)[part](0, this.#longest);
  }
}

/** What an item takes, in elements of a `Pace`. */
const ITEM_ELEMENTS = 64;

/**
 * Writes a range of items, each by `item`; rows are cut to their first `longest` values.
 *
 * @throws {InputError} naming sample and position of a value that cannot be written.
 */
export async function writeItems(
  { from, to }: Range,
  item: (writer: ItemWriter, index: number) => Promise<void>,
  signal: AbortSignal,
  longest = Infinity,
): Promise<Items> {
  const builder = new TextBuilder(signal);
  const writer = new ItemWriter(builder, longest);
  const pace = new Pace();
  try {
    for (let index = from; index < to && !signal.aborted; index++) {
      if (index > from) builder.text(",");
      await item(writer, index);
      builder.mark();
      if (pace.due(ITEM_ELEMENTS)) await pace.rest();
    }
  } catch (error) {
    throw await builder.cancel(error);
  }
  const { chunks, bytes, marks, release } = await builder.write();
  return { from, chunks, bytes, ends: marks, release };
}
