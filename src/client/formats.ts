// The two formats in which samples travel, and the choice between them.

import { describe, InputError, type TokengradError } from "../errors.ts";
import type { Place } from "../wire/rows.ts";
import type { ApiError } from "./api-errors.ts";
import { json } from "./body.ts";
import type { Gradients } from "./gradients.ts";
import type { ItemWriter } from "./items.ts";
import type { LossPlan } from "./loss.ts";
import type { NumberRow, NumberRowName, Sample, TokenRow } from "./sample.ts";

/**
 * `loss_inputs`: typed inputs per loss, dtypes as `D_TYPE_…`, routed experts inline.
 * `loss_fn_inputs`: an open map of tensors, dtypes in lower case, routed experts by key.
 */
export type WireFormat = "loss_inputs" | "loss_fn_inputs";

const FORMATS: readonly WireFormat[] = ["loss_inputs", "loss_fn_inputs"];

/** For a body without samples, which is the same in both formats. */
export const EITHER_FORMAT: readonly WireFormat[] = ["loss_inputs"];

/** Names of the number rows on the wire, the same in both formats. */
const WIRE_NAMES: Readonly<Record<NumberRowName, string>> = {
  weights: "weights",
  logprobs: "logprobs",
  advantages: "advantages",
  referenceLogprobs: "reference_logprobs",
};

/** Paths of a sample's rows in messages. */
const PATHS: Readonly<Record<"tokens" | "targets" | NumberRowName, string>> = {
  tokens: "samples[*].tokens",
  targets: "samples[*].targets",
  weights: "samples[*].weights",
  logprobs: "samples[*].logprobs",
  advantages: "samples[*].advantages",
  referenceLogprobs: "samples[*].referenceLogprobs",
};

/** Appends a `ModelInput`: one chunk that holds all tokens. */
export async function writeModelInput(writer: ItemWriter, tokens: TokenRow, place: Place): Promise<void> {
  writer.text('{"chunks":[{"encoded_text":{"tokens":');
  await writer.tokens(tokens, place, "as strings");
  writer.text("}}]}");
}

/** Numbers that samples send, about. */
export const valuesOf = (samples: readonly Sample[], plan: LossPlan): number =>
  samples.reduce((sum, { tokens }) => sum + tokens.length, 0) * (plan.rows.length + 2);

/** Appends one sample. */
export async function writeSample(
  writer: ItemWriter,
  sample: Sample,
  index: number,
  plan: LossPlan,
  format: WireFormat,
): Promise<void> {
  const writeInputs = format === "loss_inputs" ? writeLossInputs : writeLossFnInputs;
  writer.text('{"model_input":');
  await writeModelInput(writer, sample.tokens, { path: PATHS.tokens, sample: index });
  await writeInputs(writer, sample, index, plan);
  writer.text("}");
}

async function writeLossInputs(
  writer: ItemWriter,
  sample: Sample,
  index: number,
  plan: LossPlan,
): Promise<void> {
  writer.text(',"loss_inputs":{"target_tokens":{"data":');
  await writer.tokens(sample.targets, { path: PATHS.targets, sample: index }, "as strings");
  writer.text(',"dtype":"D_TYPE_INT64"}');
  for (const [nth, name] of plan.rows.entries()) {
    // The first row is the weights; those after it belong to the loss's own member.
    const open = nth === 1 ? `,"${plan.inputs}":{` : ",";
    writer.text(`${open}"${WIRE_NAMES[name]}":{"data":`);
    await writeRow(writer, sample, index, name);
    writer.text(',"dtype":"D_TYPE_FLOAT32"}');
  }
  if (plan.rows.length > 1) writer.text("}");
  if (sample.routedExperts !== undefined) {
    const { data, shape } = sample.routedExperts;
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    // In a shortened body nothing may speak of the full size.
    const experts = { data: bytes.toString("base64"), ...(writer.shortens ? {} : { shape }) };
    writer.text(`,"routed_experts":${json(experts)}`);
  }
  writer.text("}");
}

async function writeLossFnInputs(
  writer: ItemWriter,
  sample: Sample,
  index: number,
  plan: LossPlan,
): Promise<void> {
  writer.text(',"loss_fn_inputs":{"target_tokens":{"data":');
  await writer.tokens(sample.targets, { path: PATHS.targets, sample: index }, "as numbers");
  writer.text(',"dtype":"int64"}');
  for (const name of plan.rows) {
    writer.text(`,"${WIRE_NAMES[name]}":{"data":`);
    await writeRow(writer, sample, index, name);
    writer.text(',"dtype":"float32"}');
  }
  writer.text("}");
  if (sample.routedExpertsKey !== undefined) {
    writer.text(`,"routed_experts_key":${json(sample.routedExpertsKey)}`);
  }
}

function writeRow(writer: ItemWriter, sample: Sample, index: number, name: NumberRowName): Promise<void> {
  const rule = name === "weights" ? "weight" : "number";
  return writer.numbers(sample[name]!, rule, { path: PATHS[name], sample: index });
}

/** Appends the gradients of one sample, the same in both formats; outside of `runs` they are 0. */
export async function writeGradient(
  writer: ItemWriter,
  row: NumberRow,
  dtype: Gradients["dtype"],
  sample: number,
  runs: Uint32Array,
): Promise<void> {
  writer.text('{"data":');
  await writer.gradients(row, dtype, runs, { path: "gradients[*]", sample });
  writer.text(`,"dtype":"D_TYPE_${dtype.toUpperCase()}"}`);
}

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
  candidates(samples: readonly Sample[], plan: LossPlan): readonly WireFormat[] {
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

function inexpressible(
  format: WireFormat,
  samples: readonly Sample[],
  plan: LossPlan,
): TokengradError | undefined {
  if (format === "loss_inputs" && !plan.inLossInputs) {
    return new InputError("loss.type", "expected a loss that the wire format loss_inputs knows, got dppo");
  }
  const [field, inline] =
    format === "loss_inputs"
      ? (["routedExpertsKey", "routedExperts"] as const)
      : (["routedExperts", "routedExpertsKey"] as const);
  const sample = samples.findIndex((given) => given[field] !== undefined && given[inline] === undefined);
  if (sample < 0) return undefined;
  return new InputError(
    `samples[${sample}].${field}`,
    `the wire format ${format} carries ${inline} instead`,
    { sample },
  );
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
