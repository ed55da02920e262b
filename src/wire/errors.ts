// Errors of the wire, and how native faults become them.
import { AbortError, describe, InputError, NativeError, TokengradError } from "../errors.ts";

/** Where a row stands, for error messages. */
export interface Place {
  /** As in `samples[*].weights`, where the star stands for the sample. */
  readonly path: string;
  readonly sample: number;
}

/** The path of the row itself. */
export const pathOf = ({ path, sample }: Place): string => path.replace("*", String(sample));

/** The error for a value that is not what was expected. */
export function wrongValue(place: Place, position: number, expected: string, value: unknown): InputError {
  const problem = `expected ${expected}, got ${describe(value)}`;
  return new InputError(pathOf(place), problem, { sample: place.sample, position });
}

/** A result is not what was expected: no JSON, cut off, too large, or with wrong or missing rows. */
export class ResultError extends TokengradError {
  /** Index of the sample at fault, where the fault lies in one. */
  readonly sample: number | undefined;
  /** Index of the position in the sample's row, where the fault lies in one. */
  readonly position: number | undefined;
  /**
   * Whether no whole JSON text came: nothing, something else, or a part. It may be better when it comes again; rows that
   * are wrong, and texts that are too large or too deep, will not.
   */
  readonly garbled: boolean;
  /** What is wrong there: the message without the place. */
  readonly problem: string;

  constructor(
    path: string,
    problem: string,
    at: { sample?: number | undefined; position?: number | undefined; garbled?: boolean } = {},
    cause?: unknown,
  ) {
    const sample = at.sample === undefined ? "" : `, sample ${at.sample}`;
    const position = at.position === undefined ? "" : `, position ${at.position}`;
    super("ERR_RESPONSE", `${path}${sample}${position}: ${problem}`, { cause });
    this.problem = problem;
    this.sample = at.sample;
    this.position = at.position;
    this.garbled = at.garbled ?? false;
  }
}

/** What the addon throws and rejects with. */
export interface NativeFault {
  readonly message: string;
  readonly code?: string;
  readonly row?: number;
  readonly sample?: number;
  readonly position?: number;
  readonly reason?: "garbled";
}

/** The error for a fault that is nobody's: where memory runs out, say. */
export const unexpected = (fault: NativeFault): unknown =>
  fault.code === "ERR_NATIVE" ? new NativeError(fault.message, { cause: fault }) : fault;

/** The error for a call that its signal has stopped. */
export const stoppedBy = (what: string, signal: AbortSignal) =>
  new AbortError(`${what}: stopped by its signal`, { cause: signal.reason });
