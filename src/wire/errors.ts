// Errors of the wire, and how native faults become them.
import { AbortError, TokengradError } from "../errors.ts";

/** A result is not what was expected: no JSON, cut off, too large, or with wrong or missing rows. */
export class ResultError extends TokengradError {
  /** Index of the sample at fault, where the fault lies in one. */
  readonly sample: number | undefined;
  /** Index of the position in the sample's row, where the fault lies in one. */
  readonly position: number | undefined;

  constructor(message: string, at: { sample?: number; position?: number } = {}, cause?: unknown) {
    super("ERR_RESPONSE", message, { cause });
    this.sample = at.sample;
    this.position = at.position;
  }
}

/** What the addon throws and rejects with. */
export interface NativeFault {
  readonly message: string;
  readonly code?: string;
  readonly row?: number;
  readonly sample?: number;
  readonly position?: number;
}

/** The error for a call that its signal has stopped. */
export const stoppedBy = (what: string, signal: AbortSignal) =>
  new AbortError(`${what}: stopped by its signal`, { cause: signal.reason });
