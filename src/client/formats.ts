// The two formats in which samples travel.

import { InputError } from "../errors.ts";
import type { Runs } from "../wire/columns.ts";
import { type Place, pathOf } from "../wire/errors.ts";
import { json } from "./body.ts";
import type { CheckedSamples } from "./checked-samples.ts";
import type { Gradients } from "./gradients.ts";
import type { ItemWriter } from "./items.ts";
import type { LossPlan } from "./loss.ts";
import type { NumberRow, NumberRowName, Sample, TokenRow } from "./sample.ts";

/**
 * `loss_inputs`: typed inputs per loss, dtypes as `D_TYPE_…`, routed experts inline.
 * `loss_fn_inputs`: an open map of tensors, dtypes in lower case, routed experts by key.
 */
export type WireFormat = "loss_inputs" | "loss_fn_inputs";

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
export function writeModelInput(writer: ItemWriter, tokens: TokenRow, place: Place): void {
  writer.text('{"chunks":[{"encoded_text":{"tokens":');
  writer.tokens(tokens, place, "as strings");
  writer.text("}}]}");
}

/**
 * Appends one of the samples.
 *
 * @throws {InputError} if its rows have other lengths than when they were checked.
 */
export function writeSample(
  writer: ItemWriter,
  { samples, lengths }: CheckedSamples,
  index: number,
  plan: LossPlan,
  format: WireFormat,
): void {
  const sample = samples[index]!;
  for (const name of ["tokens", "targets", ...plan.rows] as const) {
    if (sample[name]!.length === lengths[index]) continue;
    const problem = `expected ${lengths[index]} values, as many as when the call began, got ${sample[name]!.length}`;
    throw new InputError(pathOf({ path: PATHS[name], sample: index }), problem, { sample: index });
  }
  const writeInputs = format === "loss_inputs" ? writeLossInputs : writeLossFnInputs;
  writer.text('{"model_input":');
  writeModelInput(writer, sample.tokens, { path: PATHS.tokens, sample: index });
  writeInputs(writer, sample, index, plan);
  writer.text("}");
}

function writeLossInputs(writer: ItemWriter, sample: Sample, index: number, plan: LossPlan): void {
  writer.text(',"loss_inputs":{"target_tokens":{"data":');
  writer.tokens(sample.targets, { path: PATHS.targets, sample: index }, "as strings");
  writer.text(',"dtype":"D_TYPE_INT64"}');
  for (const [nth, name] of plan.rows.entries()) {
    // The first row is the weights; those after it belong to the loss's own member.
    const open = nth === 1 ? `,"${plan.inputs}":{` : ",";
    writer.text(`${open}"${WIRE_NAMES[name]}":{"data":`);
    writeRow(writer, sample, index, name);
    writer.text(',"dtype":"D_TYPE_FLOAT32"}');
  }
  if (plan.rows.length > 1) writer.text("}");
  if (sample.routedExperts !== undefined) {
    const { data, shape } = sample.routedExperts;
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    // In a shortened body nothing may speak of the full size.
    const size = writer.shortens ? "" : `,"shape":${json(shape)}`;
    writer.text(`,"routed_experts":{"data":"${bytes.toString("base64")}"${size}}`);
  }
  writer.text("}");
}

function writeLossFnInputs(writer: ItemWriter, sample: Sample, index: number, plan: LossPlan): void {
  writer.text(',"loss_fn_inputs":{"target_tokens":{"data":');
  writer.tokens(sample.targets, { path: PATHS.targets, sample: index }, "as numbers");
  writer.text(',"dtype":"int64"}');
  for (const name of plan.rows) {
    writer.text(`,"${WIRE_NAMES[name]}":{"data":`);
    writeRow(writer, sample, index, name);
    writer.text(',"dtype":"float32"}');
  }
  writer.text("}");
  if (sample.routedExpertsKey !== undefined) {
    writer.text(`,"routed_experts_key":${json(sample.routedExpertsKey)}`);
  }
}

function writeRow(writer: ItemWriter, sample: Sample, index: number, name: NumberRowName): void {
  const rule = name === "weights" ? "weight" : "number";
  writer.numbers(sample[name]!, rule, { path: PATHS[name], sample: index });
}

/** Appends the gradients of one sample, the same in both formats; outside of `runs` they are 0. */
export function writeGradient(
  writer: ItemWriter,
  row: NumberRow,
  dtype: Gradients["dtype"],
  sample: number,
  runs: Runs,
): void {
  writer.text('{"data":');
  writer.gradients(row, dtype, runs, { path: "gradients[*]", sample });
  writer.text(`,"dtype":"D_TYPE_${dtype.toUpperCase()}"}`);
}
