// Reads a JSON result as it arrives: rows of log-probabilities natively, everything else by `JSON.parse`.
import type { RowLayout } from "../rows/layout.ts";
import { type NativeReadOptions, type NativeWire, nativeWire } from "./binding.ts";
import { type NativeFault, ResultError, stoppedBy } from "./errors.ts";

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
  readonly signal?: AbortSignal | undefined;
  /** Most bytes of the whole text. Default `Infinity`. */
  readonly maxBytes?: number | undefined;
  /** Most bytes beside the rows' numbers. Default 64 MiB. */
  readonly maxOtherBytes?: number | undefined;
  /** Most arrays and objects within each other. Default 64. */
  readonly maxDepth?: number | undefined;
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
 * @throws {ResultError} naming sample and position, where the fault lies in a row.
 * @throws {AbortError} when the signal fires.
 */
export async function readResult(
  parts: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  options: ResultOptions,
): Promise<Result> {
  const { signal } = options;
  if (signal?.aborted) throw stoppedBy("result", signal);
  const wire = nativeWire();
  const id = wire.open(nativeOptions(options));
  let end: ReturnType<NativeWire["finish"]> | undefined;
  const finish = () => {
    end ??= wire.finish(id);
    return end;
  };
  const stop = () => {
    finish().catch(() => {});
    wire.cancel(id);
  };
  signal?.addEventListener("abort", stop);
  try {
    await pushAll(wire, id, parts, signal);
    const { rest, rows } = await finish().catch((fault: NativeFault) => {
      throw typed(fault, options.path);
    });
    return { value: parse(rest), rows };
  } catch (error) {
    throw signal?.aborted ? stoppedBy("result", signal) : error;
  } finally {
    signal?.removeEventListener("abort", stop);
    stop();
    // `output` may be another text's from now on.
    await finish().catch(() => {});
  }
}

function nativeOptions(options: ResultOptions): NativeReadOptions {
  const { path, layout, output, packed } = options;
  const { maxBytes = Infinity, maxOtherBytes = 64 * 1024 * 1024, maxDepth = 64 } = options;
  const { rowLengths, runCounts, runs } = layout;
  return { path, rowLengths, runCounts, runs, output, packed, maxBytes, maxOtherBytes, maxDepth };
}

/** Pushes parts until the text is refused or ends. */
async function pushAll(
  wire: NativeWire,
  id: number,
  parts: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<void> {
  for await (const part of parts) {
    if (signal?.aborted) return;
    const waiting = wire.push(id, part);
    if (waiting < 0) return;
    if (waiting > MOST_WAITING) await wire.drained(id);
  }
}

function typed(fault: NativeFault, path: readonly string[]): unknown {
  const { code, message, sample, position, reason } = fault;
  if (code !== "ERR_RESULT") return fault;
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
