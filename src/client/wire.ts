// The two formats in which samples travel, and the choice between them.

import { describe, InputError, type TokengradError } from "../errors.ts";
import type { ApiError } from "./api-errors.ts";
import { type BodyWriter, json } from "./body.ts";
import type { Gradients } from "./gradients.ts";
import type { LossPlan } from "./loss.ts";
import { writeBfloat16, writeFloats, writeTokens, writeWeights } from "./rows.ts";
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

/** Appends a `ModelInput`: one chunk that holds all tokens. */
export async function writeModelInput(
  writer: BodyWriter,
  tokens: TokenRow,
  path: string,
  sample: number,
): Promise<void> {
  writer.text('{"chunks":[{"encoded_text":{"tokens":');
  await writeTokens(writer, tokens, { path, sample }, "as strings");
  writer.text("}}]}");
}

/** Appends one sample. */
export async function writeSample(
  writer: BodyWriter,
  sample: Sample,
  index: number,
  plan: LossPlan,
  format: WireFormat,
): Promise<void> {
  const writeInputs = format === "loss_inputs" ? writeLossInputs : writeLossFnInputs;
  writer.text('{"model_input":');
  await writeModelInput(writer, sample.tokens, `samples[${index}].tokens`, index);
  await writeInputs(writer, sample, index, plan);
  writer.text("}");
}

async function writeLossInputs(
  writer: BodyWriter,
  sample: Sample,
  index: number,
  plan: LossPlan,
): Promise<void> {
  writer.text(',"loss_inputs":{"target_tokens":{"data":');
  await writeTokens(
    writer,
    sample.targets,
    { path: `samples[${index}].targets`, sample: index },
    "as strings",
  );
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
  writer: BodyWriter,
  sample: Sample,
  index: number,
  plan: LossPlan,
): Promise<void> {
  writer.text(',"loss_fn_inputs":{"target_tokens":{"data":');
  await writeTokens(
    writer,
    sample.targets,
    { path: `samples[${index}].targets`, sample: index },
    "as numbers",
  );
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

function writeRow(writer: BodyWriter, sample: Sample, index: number, name: NumberRowName): Promise<void> {
  const write = name === "weights" ? writeWeights : writeFloats;
  return write(writer, sample[name]!, { path: `samples[${index}].${name}`, sample: index });
}

/** Appends the gradients of one sample, the same in both formats. */
export async function writeGradient(
  writer: BodyWriter,
  gradients: Gradients,
  sample: number,
  weights: NumberRow,
): Promise<void> {
  const write = gradients.dtype === "bfloat16" ? writeBfloat16 : writeFloats;
  writer.text('{"data":');
  await write(writer, gradients.row(sample), { path: `gradients[${sample}]`, sample }, weights);
  writer.text(`,"dtype":"D_TYPE_${gradients.dtype.toUpperCase()}"}`);
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
