// The bodies of the operations that carry samples, gradients or prompts.

import { InputError } from "../errors.ts";
import { readRowLayout } from "../rows/layout.ts";
import type { Call } from "./call.ts";
import { checkGradients, type GradientsLike } from "./gradients.ts";
import { Logprobs } from "./logprobs.ts";
import { CUSTOM, type LossPlan } from "./loss.ts";
import type { Effect } from "./order.ts";
import { checkSamples, checkTokens, type Sample, type TokenRow } from "./sample.ts";
import type { OperationKind, Submission } from "./submission.ts";
import { EITHER_FORMAT, type WireFormatChoice, writeGradient, writeModelInput, writeSample } from "./wire.ts";

/** A pass of a built-in loss over samples: scoring only, or with gradients. */
export function lossPass(
  samples: readonly Sample[],
  plan: LossPlan,
  pass: { readonly forwardOnly: boolean; readonly logprobs: "rows" | "packed" | undefined },
  wireFormat: WireFormatChoice,
): Submission {
  checkSamples(samples, plan.rows);
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
    lists: [sampleList(samples, plan)],
    count: samples.length,
    // A sum over tokens can be made of parts; other losses may divide by what is in the whole batch.
    divisible: forwardOnly && plan.isSum,
    // The weights that score a batch must not change before its last part is scored.
    holdsTurn: forwardOnly,
    logprobs: logprobs && ((call) => logprobsOf(samples, logprobs === "packed", call)),
  };
}

export function customPass(
  samples: readonly Sample[],
  given: GradientsLike,
  wireFormat: WireFormatChoice,
): Submission {
  checkSamples(samples, CUSTOM.rows);
  const gradients = checkGradients(given, samples);
  const list = sampleList(samples, CUSTOM);
  return {
    kind: "custom-forward-backward",
    effect: "changes",
    formats: wireFormat.candidates(samples, CUSTOM),
    head: {},
    flags: {},
    lists: [
      list,
      {
        name: "gradients",
        values: list.values / (CUSTOM.rows.length + 2),
        write: (writer, index) => writeGradient(writer, gradients, index, samples[index]!.weights),
      },
    ],
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
  for (const [index, prompt] of prompts.entries()) checkTokens(`prompts[${index}]`, prompt, {});
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
        write: (writer, index) => writeModelInput(writer, prompts[index]!, `prompts[${index}]`, index),
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

async function logprobsOf(samples: readonly Sample[], packed: boolean, call: Call): Promise<Logprobs> {
  const pace = call.pace();
  const weights = samples.map(({ weights }) => weights);
  const layout = await readRowLayout(weights, (sample) => `samples[${sample}].weights`, pace);
  return Logprobs.of(layout, packed, pace);
}

function sampleList(samples: readonly Sample[], plan: LossPlan): Submission["lists"][number] {
  return {
    name: "samples",
    values: samples.reduce((sum, { tokens }) => sum + tokens.length, 0) * (plan.rows.length + 2),
    write: (writer, index, format) => writeSample(writer, samples[index]!, index, plan, format),
  };
}
