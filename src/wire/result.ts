// Reads a JSON result as it arrives: rows of log-probabilities natively, everything else by `JSON.parse`.
import type { RowLayout } from "../rows/layout.ts";
import { type NativeWire, nativeWire } from "./binding.ts";
import { type NativeFault, ResultError, unexpected } from "./errors.ts";

/** Where the rows of a batch lie, and which of their positions are trained. */
export type ResultLayout = Pick<RowLayout, "rowLengths" | "runCounts" | "runs">;

export interface ResultOptions {
  /** Members that lead to a sample's row; `*` stands for the elements of an array, one a sample. */
  readonly path: readonly string[];
  readonly layout: ResultLayout;
  /**
   * Where the numbers go: one for each trained position if `packed`, else one for each position. Its content is
   * undefined where the result is refused, and left as it is where it has no rows.
   */
  readonly output: Float32Array;
  readonly packed: boolean;
}

export interface Result {
  /** The parsed text, in which the rows' arrays are empty. Of samples that are left alike, neighbours are one element. */
  readonly value: unknown;
  /** Rows that came: none, or one for each sample. */
  readonly rows: number;
}

/** Path of the log-probabilities in an operation, and in an output that came by itself. */
export const LOGPROBS_IN_OUTPUT = ["loss_fn_outputs", "*", "tensors", "logprobs", "data"] as const;
export const LOGPROBS_IN_OPERATION = ["output", ...LOGPROBS_IN_OUTPUT] as const;

/** Bytes that may wait for the threads before no more are taken. */
const MOST_WAITING = 4 * 1024 * 1024;

/**
 * Reads a text from its parts, whose memory must not be reused. Numbers are rounded correctly; `null` and numbers that no
 * float32 holds become 0 at positions that are not trained. What `parts` throws is thrown on as it is.
 *
 * @throws {ResultError} naming sample and position, where the fault lies in a row. A text may have 64 MiB beside the rows'
 *   numbers, and 64 arrays and objects within each other.
 */
export async function readResult(
  parts: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  options: ResultOptions,
): Promise<Result> {
  const wire = nativeWire();
  const { path, layout, output, packed } = options;
  const { rowLengths, runCounts, runs } = layout;
  const id = wire.open({ path, rowLengths, runCounts, runs, output, packed });
  try {
    await pushAll(wire, id, parts);
  } catch (error) {
    const end = wire.finish(id);
    wire.cancel(id);
    // `output` may be another text's from now on.
    await end.catch(() => {});
    throw error;
  }
  const { rest, rows } = await wire.finish(id).catch((fault: NativeFault) => {
    throw typed(fault, path);
  });
  return { value: parse(rest), rows };
}

/** Pushes parts until the text is refused or ends. */
async function pushAll(
  wire: NativeWire,
  id: number,
  parts: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): Promise<void> {
  for await (const part of parts) {
    const waiting = wire.push(id, part);
    if (waiting < 0) return;
    if (waiting > MOST_WAITING) await wire.drained(id);
  }
}

function typed(fault: NativeFault, path: readonly string[]): unknown {
  const { code, message, sample, position, reason } = fault;
  if (code !== "ERR_RESULT") return unexpected(fault);
  // The addon's own sentence begins with the place.
  const problem = message.replace(/^sample \d+(, position \d+)?: /, "");
  return new ResultError(path.join("."), problem, { sample, position, garbled: reason === "garbled" });
}

function parse(rest: string): unknown {
  try {
    return JSON.parse(rest);
  } catch (cause) {
    const got = rest.trim() === "" ? "nothing" : "text that does not parse";
    throw new ResultError("result", `expected JSON, got ${got}`, { garbled: true }, cause);
  }
}
