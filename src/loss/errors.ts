// Errors of writing a loss: found while it is defined, long before it runs.
import { TokengradError } from "../errors.ts";
import { callerSource } from "./source.ts";

export type LossErrorCode =
  /** A tensor varies over another axis than the op or the loss needs. */
  | "ERR_AXIS"
  /** An operand is neither a tensor of this loss nor a number, or a value was read while tracing. */
  | "ERR_TRACE"
  /** The declaration is wrong: an unknown, reserved or doubled name, a parameter that is no finite number. */
  | "ERR_LOSS_DEFINITION"
  /** The function returned something other than a loss, or a loss that no gradient reaches. */
  | "ERR_LOSS_RESULT";

/** A loss is written wrongly. `source` is the `file:line:column` of the code at fault, where known. */
export class LossError extends TokengradError {
  declare readonly code: LossErrorCode;
  readonly source: string | undefined;

  constructor(code: LossErrorCode, message: string, source?: string) {
    super(code, source === undefined ? message : `${message} (at ${source})`);
    this.source = source;
  }
}

/** Throws for the line of the caller's code that is running. */
export function refuse(code: LossErrorCode, problem: string): never {
  throw new LossError(code, problem, callerSource());
}
