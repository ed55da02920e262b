// The bodies of the operations that carry samples, gradients or prompts.

import { InputError } from "../errors.ts";
import type { Call } from "./call.ts";
import type { EncodedSamples } from "./encoded-samples.ts";
import {
  EITHER_FORMAT,
  valuesOf,
  type WireFormatChoice,
  writeGradient,
  writeModelInput,
  writeSample,
} from "./formats.ts";
import { checkGradients, type GradientsLike, gradientRow } from "./gradients.ts";
import type { ItemWriter } from "./items.ts";
import { Logprobs } from "./logprobs.ts";
import { CUSTOM, type LossPlan } from "./loss.ts";
import type { Effect } from "./order.ts";
import { encodedSamples, type SamplesLike } from "./prepared.ts";
import { checkTokens, type TokenRow } from "./sample.ts";
import type { OperationKind, Submission } from "./submission.ts";

/** A pass of a built-in loss over samples: scoring only, or with gradients. */
export function lossPass(
  given: SamplesLike,
  plan: LossPlan,
  pass: { readonly forwardOnly: boolean; readonly logprobs: "rows" | "packed" | undefined },
  wireFormat: WireFormatChoice,
): Submission {
  const encoded = encodedSamples(given, plan.rows);
  const { samples } = encoded;
  const { forwardOnly, logprobs } = pass;
  return {
    kind: "forward-backward",
    effect: forwardOnly ? "reads" : "changes",
    formats: wireFormat.candidates(samples, plan),
    head: { loss: plan.wire },
    flags: {
      ...(forwardOnly && { forward_only: true }),
      ...(logprobs && { return_loss_fn_outputs: true }),
    },
    lists: [sampleList(encoded, plan)],
    samples: encoded,
    count: samples.length,
    // A sum over tokens can be made of parts; other losses may divide by what is in the whole batch.
    divisible: forwardOnly && plan.isSum,
    // The weights that score a batch must not change before its last part is scored.
    holdsTurn: forwardOnly,
    logprobs: logprobs && ((call) => logprobsOf(encoded, logprobs === "packed", call)),
  };
}

export function customPass(
  given: SamplesLike,
  givenGradients: GradientsLike,
  wireFormat: WireFormatChoice,
): Submission {
  const encoded = encodedSamples(given, CUSTOM.rows);
  const { samples } = encoded;
  const gradients = checkGradients(givenGradients, samples);
  const list = sampleList(encoded, CUSTOM);
  const write = async (writer: ItemWriter, index: number) => {
    const row = gradientRow(gradients, index, samples[index]!);
    await writeGradient(writer, row, gradients.dtype, index, await encoded.runs(index));
  };
  return {
    kind: "custom-forward-backward",
    effect: "changes",
    formats: wireFormat.candidates(samples, CUSTOM),
    head: {},
    flags: {},
    lists: [list, { name: "gradients", values: list.values / (CUSTOM.rows.length + 2), write }],
    samples: encoded,
    count: samples.length,
    // The gradients are of the whole batch already, and they add up.
    divisible: true,
    holdsTurn: false,
  };
}

/** `sampling`: all members of the body but its prompts. */
export function samplePass(prompts: readonly TokenRow[], sampling: object): Submission {
  if (!Array.isArray(prompts) || prompts.length === 0) {
    throw new InputError("prompts", "expected an array with at least one prompt");
  }
  for (const [index, prompt] of prompts.entries()) checkTokens(() => `prompts[${index}]`, prompt, {});
  return {
    kind: "sample",
    effect: "reads",
    formats: EITHER_FORMAT,
    head: sampling,
    flags: {},
    lists: [
      {
        name: "model_inputs",
        values: prompts.reduce((sum, { length }) => sum + length, 0),
        write: (writer, index) =>
          writeModelInput(writer, prompts[index]!, { path: "prompts[*]", sample: index }),
      },
    ],
    count: prompts.length,
    // One seed is for all prompts of a request.
    divisible: false,
    holdsTurn: false,
  };
}

/** An operation without samples. */
export const smallPass = (kind: OperationKind, effect: Effect, head?: object): Submission => ({
  kind,
  effect,
  formats: EITHER_FORMAT,
  head,
  flags: {},
  lists: [],
  count: 0,
  divisible: false,
  holdsTurn: false,
});

async function logprobsOf(encoded: EncodedSamples, packed: boolean, call: Call): Promise<Logprobs> {
  return new Logprobs(await call.until(encoded.layout()), packed);
}

function sampleList(encoded: EncodedSamples, plan: LossPlan): Submission["lists"][number] {
  const { samples } = encoded;
  return {
    name: "samples",
    values: valuesOf(samples, plan),
    write: (writer, index, format) => writeSample(writer, samples[index]!, index, plan, format),
    // Other losses send rows of their own.
    kept: (...which) => (plan.rows.length === CUSTOM.rows.length ? encoded.text(...which) : undefined),
  };
}
