// Which of the two wire formats a client speaks.

import { describe, InputError, type TokengradError } from "../errors.ts";
import type { ApiError } from "./api-errors.ts";
import type { CheckedSamples, Routing } from "./checked-samples.ts";
import type { WireFormat } from "./formats.ts";
import type { LossPlan } from "./loss.ts";

const FORMATS: readonly WireFormat[] = ["loss_inputs", "loss_fn_inputs"];

/** For a body without samples, which is the same in both formats. */
export const EITHER_FORMAT: readonly WireFormat[] = ["loss_inputs"];

/** The format that a client speaks: given, or found out with the first body that the service takes. */
export class WireFormatChoice {
  readonly #fixed: WireFormat | undefined;
  #known: WireFormat | undefined;

  constructor(option: WireFormat | "auto") {
    if (option !== "auto" && !FORMATS.includes(option)) {
      throw new InputError(
        "wireFormat",
        `expected "auto", "loss_inputs" or "loss_fn_inputs", got ${describe(option)}`,
      );
    }
    this.#fixed = option === "auto" ? undefined : option;
  }

  /** Formats to try with these samples, best first; an error where none can carry them. */
  candidates(samples: CheckedSamples, plan: LossPlan): readonly WireFormat[] {
    const first = this.#fixed ?? this.#known ?? FORMATS[0]!;
    const wanted = this.#fixed ? [first] : [first, ...FORMATS.filter((format) => format !== first)];
    const able = wanted.filter((format) => inexpressible(format, samples, plan) === undefined);
    if (able.length === 0) throw inexpressible(first, samples, plan);
    return able[0] === this.#known ? able.slice(0, 1) : able;
  }

  /**
   * What a key ends in for a body of this format. Another format is another body, and a key stands for one body only; the
   * ending must not depend on what is known so far, or a repeat of a call could get another key.
   */
  keyEnding(format: WireFormat): string {
    return this.#fixed !== undefined || format === FORMATS[0] ? "" : `-${format}`;
  }

  /** Called when the service has taken a body in this format. */
  remember(format: WireFormat): void {
    this.#known = format;
  }
}

/** How a format carries routing. */
const CARRIES: Readonly<Record<WireFormat, Routing>> = {
  loss_inputs: "routedExperts",
  loss_fn_inputs: "routedExpertsKey",
};

function inexpressible(
  format: WireFormat,
  { routedBy }: CheckedSamples,
  plan: LossPlan,
): TokengradError | undefined {
  if (format === "loss_inputs" && !plan.inLossInputs) {
    return new InputError("loss.type", "expected a loss that the wire format loss_inputs knows, got dppo");
  }
  const carried = CARRIES[format];
  const other = carried === "routedExperts" ? "routedExpertsKey" : "routedExperts";
  const sample = routedBy[other];
  if (sample === undefined) return undefined;
  const problem = `the wire format ${format} carries ${carried} instead`;
  return new InputError(`samples[${sample}].${other}`, problem, { sample });
}

/** Of two refusals, one per format, the one that speaks of the content and not of a format that is not known. */
export function moreTelling(first: Refusal, second: Refusal): ApiError {
  return ofShape(first) && !ofShape(second) ? second.error : first.error;
}

/** A body that the service refused, and the format it was in. */
export interface Refusal {
  readonly error: ApiError;
  readonly format: WireFormat;
}

/** Whether the refusal asks for the other format's member, or names this format's member as a whole. */
function ofShape({ error, format }: Refusal): boolean {
  const other = format === "loss_inputs" ? "loss_fn_inputs" : "loss_inputs";
  return new RegExp(`\\b(${other}\\b|${format}\\b(?![.[/]))`).test(`${error.param} ${error.message}`);
}
