// The body of an operation: its members, encoded once, sent whole or in the parts that travel apart.

import { type Body, type Items, itemBytes, itemsBetween, join, json } from "./body.ts";
import type { Call } from "./call.ts";
import type { Range } from "./chunks.ts";
import type { EncodedSamples } from "./encoded-samples.ts";
import type { WireFormat } from "./formats.ts";
import { type ItemWriter, writeItems } from "./items.ts";
import type { Logprobs } from "./logprobs.ts";
import type { Effect } from "./order.ts";

export type OperationKind =
  | "forward-backward"
  | "custom-forward-backward"
  | "optim-step"
  | "weights-sync"
  | "sample"
  | "inference-checkpoint"
  | "training-checkpoint";

/** A member of a body that is an array with one item for each sample or prompt. */
interface List {
  readonly name: string;
  /** Numbers in it, about; for an estimate of its size. */
  readonly values: number;
  write(writer: ItemWriter, index: number, format: WireFormat): void;
  /** All its items, where their text is kept for other passes; `longest` cuts every array of values. */
  kept?(format: WireFormat, longest: number): Promise<Items> | undefined;
}

/** What an operation is, whatever its arguments are. */
interface Outline {
  readonly kind: OperationKind;
  readonly effect: Effect;
  /** Items of every list. */
  readonly count: number;
}

/** An operation that was called. */
export interface Asked extends Outline {
  /**
   * What is to be sent; nothing is written yet.
   *
   * @throws {InputError} where an argument is wrong.
   */
  check(signal: AbortSignal): Promise<Submission>;
}

export interface Submission extends Outline {
  /** The formats to try, best first. */
  readonly formats: readonly WireFormat[];
  /** Small members of the body; undefined where there is no body at all. */
  readonly head: object | undefined;
  /** Members that stay in the request when the rest of the body is uploaded. */
  readonly flags: object;
  readonly lists: readonly List[];
  /** What the lists are made of, where it is samples. */
  readonly samples?: EncodedSamples | undefined;
  /** Whether runs of items may go out as operations of their own. */
  readonly divisible: boolean;
  /** Whether nothing that changes the session may go out before the result is there. */
  readonly holdsTurn: boolean;
  /** Makes room for the log-probabilities, where the result has some. */
  readonly logprobs?: (() => Logprobs) | undefined;
}

/** A submission's lists over some of its items, in one format. */
export interface Encoded {
  readonly submission: Submission;
  readonly range: Range;
  readonly lists: readonly Items[];
  /** Hands on the memory of what was encoded for this submission alone. Only when nothing is to be sent any more. */
  release(): void;
}

/** Bytes of a number with its comma, about. */
export const VALUE_BYTES = 10;

/** The size that a body with all items will have, about. @unit bytes */
export function estimate({ lists, count }: Submission, { from, to }: Range): number {
  const values = lists.reduce((sum, list) => sum + list.values, 0);
  return Math.ceil((values * VALUE_BYTES * (to - from)) / Math.max(1, count));
}

/** `longest` cuts every array of values. */
export async function encode(
  submission: Submission,
  format: WireFormat,
  range: Range,
  call: Call,
  longest = Infinity,
): Promise<Encoded> {
  const lists: Items[] = [];
  const own: Items[] = [];
  for (const list of submission.lists) {
    const kept = list.kept?.(format, longest);
    if (kept !== undefined) {
      lists.push(await call.until(kept));
      continue;
    }
    const write = (writer: ItemWriter, index: number) => list.write(writer, index, format);
    const items = await writeItems(range, write, call.signal, longest);
    lists.push(items);
    own.push(items);
  }
  const release = () => {
    for (const items of own) items.release();
  };
  return { submission, range, lists, release };
}

/** The body that holds everything. */
export function wholeBody(encoded: Encoded, range: Range): Body | undefined {
  const { head, flags } = encoded.submission;
  return head && compose({ ...head, ...flags }, encoded, range);
}

/** The body that is uploaded. */
export function uploadedBody(encoded: Encoded, range: Range): Body {
  return compose(encoded.submission.head!, encoded, range);
}

/** The body that stands in for an uploaded one: the same, with arrays that were cut. */
export function shortenedBody(encoded: Encoded, range: Range, payloadId: string): Body {
  const { head, flags } = encoded.submission;
  return compose({ ...head, ...flags, payload_id: payloadId }, encoded, range);
}

/** Size of the whole body, without its small members. @unit bytes */
export function encodedBytes({ lists }: Encoded, { from, to }: Range): number {
  return lists.reduce((sum, items) => sum + itemBytes(items, from, to), 0);
}

function compose(small: object, { submission, lists }: Encoded, { from, to }: Range): Body {
  const head = json(small).slice(1, -1);
  const pieces: (Body | string)[] = ["{", head];
  for (const [index, items] of lists.entries()) {
    const comma = index > 0 || head !== "" ? "," : "";
    pieces.push(`${comma}"${submission.lists[index]!.name}":[`);
    pieces.push(itemsBetween(items, from, to), "]");
  }
  return join([...pieces, "}"]);
}
