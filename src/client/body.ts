// Request bodies as lists of buffers, and arrays of items of which any run can be sent.

/** A finished request body, or a piece of one. */
export interface Body {
  readonly chunks: readonly Buffer[];
  /** Sum of the chunks' lengths. */
  readonly bytes: number;
}

/** The items of a JSON array without its brackets, so that any run of them can be sent on its own. */
export interface Items extends Body {
  /** Index of the first item. */
  readonly from: number;
  /** Where each item ends; a comma stands between two. @unit bytes */
  readonly ends: Float64Array;
  /** Hands the memory on. Only when nothing sends the items any more, nor ever will. */
  release(): void;
}

/** Bytes of the items `from` to `to`. */
export function itemBytes(items: Items, from: number, to: number): number {
  return to > from ? endOf(items, to) - startOf(items, from) : 0;
}

/** The items `from` to `to`: views of the same buffers. */
export function itemsBetween(items: Items, from: number, to: number): Body {
  if (to <= from) return { chunks: [], bytes: 0 };
  const start = startOf(items, from);
  const end = endOf(items, to);
  const parts: Buffer[] = [];
  let position = 0;
  for (const chunk of items.chunks) {
    if (position >= end) break;
    if (position + chunk.length > start) {
      parts.push(chunk.subarray(Math.max(0, start - position), end - position));
    }
    position += chunk.length;
  }
  return { chunks: parts, bytes: end - start };
}

const endOf = ({ from, ends }: Items, to: number): number => ends[to - from - 1]!;

/** Behind the item before it, and the comma. */
const startOf = (items: Items, item: number): number => (item === items.from ? 0 : endOf(items, item) + 1);

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
