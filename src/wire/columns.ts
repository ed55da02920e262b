// Rows of a text, kept in columns until they are written.
import { InputError } from "../errors.ts";
import { type NativeRows, type RowValues, RULES } from "./binding.ts";
import { type Place, pathOf, wrongValue } from "./errors.ts";
import { idValues, isIds, isNumbers, numberValues } from "./values.ts";

/** A row, and where it stands. */
export interface TextRow extends Place {
  /**
   * The values of all positions, or if there is a `length` those of the runs one after the other. Typed arrays that the
   * addon knows are read in place, others are copied.
   */
  readonly values: ArrayLike<unknown>;
  /**
   * `number`: finite float32, or bfloat16 as bits in a `Uint16Array`. `weight`: 0, or a float32 above 0. `id`: a whole
   * number of at least 0; `quotedId` puts those above 2^53 - 1 in quotes.
   */
  readonly rule: (typeof RULES)[number];
  /** Where they lie; all positions outside of them hold 0, or -0. */
  readonly runs?: Runs;
  /** Positions of a row whose values are those of the runs only. */
  readonly length?: number;
  /** What to expect outside of the runs, and why, where others than `0` are refused. Default `0 outside of the runs`. */
  readonly outside?: string;
}

/** Some of many runs, which are not views of their own: there may be one a row. */
export interface Runs {
  /** First position and length of each. */
  readonly of: Uint32Array;
  /** Index of the first run, and how many there are. */
  readonly first: number;
  readonly count: number;
}

const NO_RUNS = new Uint32Array(0);

const EXPECTED = {
  number: "a finite number within float32's range",
  weight: "0 or a positive float32",
  id: "an integer from 0 to 2^63 - 1",
  quotedId: "an integer from 0 to 2^63 - 1",
} as const;

/**
 * Rows column by column, each with the text before it: many small rows are no objects of their own. Their runs must be of
 * one array.
 */
export class RowColumns {
  /** The most rows. */
  readonly capacity: number;
  readonly #texts: string[] = [];
  readonly #textEnds: Uint32Array;
  readonly #values: ArrayLike<unknown>[] = [];
  readonly #rules: Uint8Array;
  #runs: Uint32Array | undefined;
  readonly #runRanges: Int32Array;
  readonly #lengths: Float64Array;
  readonly #paths: string[] = [];
  readonly #samples: Uint32Array;
  readonly #outside: (string | undefined)[] = [];
  /** Values of each row when it was appended. */
  readonly #sizes: Float64Array;
  /** Rows whose values are still to be copied. */
  readonly #foreign: number[] = [];
  /** Bytes of all texts. */
  textBytes = 0;
  /** Values of all rows. */
  values = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
    this.#textEnds = new Uint32Array(capacity + 1);
    this.#rules = new Uint8Array(capacity);
    this.#runRanges = new Int32Array(2 * capacity);
    this.#lengths = new Float64Array(capacity);
    this.#samples = new Uint32Array(capacity);
    this.#sizes = new Float64Array(capacity);
  }

  /** Number of rows. */
  get size(): number {
    return this.#values.length;
  }

  /** Whether a row's runs are of the same array as those of the rows before it. */
  takes({ runs }: TextRow): boolean {
    return runs === undefined || this.#runs === undefined || runs.of === this.#runs;
  }

  /** Appends a row that is taken, and `text` before it, which has so many bytes. */
  add(text: string, textBytes: number, row: TextRow): void {
    const { values, rule, runs } = row;
    const nth = this.size;
    this.#addText(text, textBytes);
    if (isNative(values, rule)) {
      this.#values.push(stable(values));
    } else {
      this.#foreign.push(nth);
      this.#values.push(values);
    }
    this.#rules[nth] = RULES.indexOf(rule);
    this.#runs ??= runs?.of;
    this.#runRanges[2 * nth] = runs?.first ?? 0;
    this.#runRanges[2 * nth + 1] = runs?.count ?? -1;
    this.#lengths[nth] = row.length ?? -1;
    this.#paths.push(row.path);
    this.#samples[nth] = row.sample;
    this.#outside.push(row.outside);
    this.#sizes[nth] = values.length;
    this.values += values.length;
  }

  /**
   * Copies the values that the addon cannot read in place. At the first fault only the rows before it are left. Throws the
   * signal's reason when it fires.
   */
  async settle(signal: AbortSignal | undefined): Promise<InputError | undefined> {
    for (const row of this.#foreign.splice(0)) {
      const copy = isIdRule(RULES[this.#rules[row]!]!) ? idValues : numberValues;
      try {
        this.#values[row] = await copy(this.#values[row]!, this.#placeOf(row), signal);
      } catch (error) {
        if (!(error instanceof InputError)) throw error;
        return this.#cut(row, error);
      }
    }
    for (let row = 0; row < this.size; row++) {
      const { length } = this.#values[row]!;
      if (length === this.#sizes[row]) continue;
      const place = this.#placeOf(row);
      const problem = `expected the ${this.#sizes[row]} values that it had when the call began, got ${length}`;
      return this.#cut(row, new InputError(pathOf(place), problem, { sample: place.sample }));
    }
    return undefined;
  }

  /** Drops the rows from one on. */
  #cut(row: number, fault: InputError): InputError {
    this.#values.length = row;
    this.#texts.length = row;
    this.textBytes = row === 0 ? 0 : this.#textEnds[row - 1]!;
    return fault;
  }

  /** Makes room for other rows. */
  clear(): void {
    this.#texts.length = 0;
    this.#values.length = 0;
    this.#runs = undefined;
    this.#paths.length = 0;
    this.#outside.length = 0;
    this.textBytes = 0;
    this.values = 0;
  }

  /** The rows that are settled, with the text behind the last one, which has so many bytes. */
  close(text: string, textBytes: number): NativeRows {
    this.#addText(text, textBytes);
    const { size } = this;
    return {
      text: this.#texts.join(""),
      textEnds: this.#textEnds.subarray(0, size + 1),
      values: this.#values as RowValues[],
      rules: this.#rules.subarray(0, size),
      runs: this.#runs ?? NO_RUNS,
      runRanges: this.#runRanges.subarray(0, 2 * size),
      lengths: this.#lengths.subarray(0, size),
    };
  }

  /** The error for the value of a row's position that cannot be written. */
  refusal(row: number, position: number): InputError {
    const rule = RULES[this.#rules[row]!]!;
    const runs = this.#runsOf(row);
    const packed = this.#lengths[row]! >= 0;
    const inRuns = runs && packedIndex(runs, position);
    const value = valueAt(this.#values[row] as RowValues, packed ? inRuns! : position);
    const beside = runs !== undefined && inRuns === undefined;
    const expected = beside ? (this.#outside[row] ?? "0 outside of the runs") : EXPECTED[rule];
    return wrongValue(this.#placeOf(row), position, expected, value);
  }

  #runsOf(row: number): Uint32Array | undefined {
    const first = this.#runRanges[2 * row]!;
    const count = this.#runRanges[2 * row + 1]!;
    return count < 0 ? undefined : this.#runs!.subarray(2 * first, 2 * (first + count));
  }

  #placeOf(row: number): Place {
    return { path: this.#paths[row]!, sample: this.#samples[row]! };
  }

  #addText(text: string, bytes: number): void {
    this.textBytes += bytes;
    this.#textEnds[this.#texts.length] = this.textBytes;
    this.#texts.push(text);
  }
}

const isIdRule = (rule: TextRow["rule"]) => rule === "id" || rule === "quotedId";

/** Whether the addon reads the values as they are. */
function isNative(values: ArrayLike<unknown>, rule: TextRow["rule"]): values is RowValues {
  if (isIdRule(rule)) return isIds(values);
  return isNumbers(values) || (rule === "number" && values instanceof Uint16Array);
}

/** Values whose memory stays where it is: those of buffers that can shrink or are shared are copied. */
function stable(values: RowValues): RowValues {
  const buffer = values.buffer as ArrayBuffer & { readonly resizable?: boolean };
  return buffer instanceof ArrayBuffer && buffer.resizable !== true ? values : values.slice();
}

/** The place of a position's value among those of the runs; none outside of them. */
function packedIndex(runs: Uint32Array, position: number): number | undefined {
  let before = 0;
  for (let i = 0; i < runs.length; i += 2) {
    const within = position - runs[i]!;
    if (within < 0) return undefined;
    if (within < runs[i + 1]!) return before + within;
    before += runs[i + 1]!;
  }
  return undefined;
}

function valueAt(values: RowValues, index: number): number | bigint {
  const value = values[index]!;
  if (!(values instanceof Uint16Array)) return value;
  return new Float32Array(Uint32Array.of((value as number) * 0x10000).buffer)[0]!;
}
