// The bodies of the operations that carry samples, gradients or prompts.

import { InputError } from "../errors.ts";
import { Pace } from "../pace.ts";
import type { EncodedSamples } from "./encoded-samples.ts";
import { EITHER_FORMAT, type WireFormatChoice } from "./format-choice.ts";
import { writeGradient, writeModelInput, writeSample } from "./formats.ts";
import { checkGradients, type GradientsLike, gradientRow } from "./gradients.ts";
import { Logprobs } from "./logprobs.ts";
import { CUSTOM, type LossConfig, type LossPlan, planLoss } from "./loss.ts";
import type { Effect } from "./order.ts";
import { countOf, encodedSamples, type SamplesLike, valuesOf } from "./prepared.ts";
import { checkTokens, type TokenRow } from "./sample.ts";
import type { Asked, OperationKind, Submission } from "./submission.ts";

/** A pass of a built-in loss over samples: scoring only, or with gradients. */
export function lossPass(
  given: SamplesLike,
  loss: LossConfig,
  pass: { readonly forwardOnly: boolean; readonly logprobs: "rows" | "packed" | undefined },
  wireFormat: WireFormatChoice,
): Asked {
  const { forwardOnly, logprobs } = pass;
  const asked = {
    kind: "forward-backward",
    effect: forwardOnly ? "reads" : "changes",
    count: countOf(given),
  } as const;
  const check = async (signal: AbortSignal): Promise<Submission> => {
    const plan = planLoss(loss);
    const encoded = await encodedSamples(given, plan, signal);
    const layout = logprobs && (await encoded.layout());
    return {
      ...asked,
      formats: wireFormat.candidates(encoded.checked, plan),
      head: { loss: plan.wire },
      flags: {
        ...(forwardOnly && { forward_only: true }),
        ...(logprobs && { return_loss_fn_outputs: true }),
      },
      lists: [sampleList(encoded, plan)],
      samples: encoded,
      // A sum over tokens can be made of parts; other losses may divide by what is in the whole batch.
      divisible: forwardOnly && plan.isSum,
      // The weights that score a batch must not change before its last part is scored.
      holdsTurn: forwardOnly,
      logprobs: layout && (() => new Logprobs(layout, logprobs === "packed")),
    };
  };
  return { ...asked, check };
}

export function customPass(
  given: SamplesLike,
  givenGradients: GradientsLike,
  wireFormat: WireFormatChoice,
): Asked {
  const asked = {
    kind: "custom-forward-backward",
    effect: "changes",
    count: countOf(given),
  } as const;
  const check = async (signal: AbortSignal): Promise<Submission> => {
    const encoded = await encodedSamples(given, CUSTOM, signal);
    const { samples, positions } = encoded.checked;
    const gradients = checkGradients(givenGradients, samples);
    const formats = wireFormat.candidates(encoded.checked, CUSTOM);
    const { runs, runOffsets } = await encoded.layout();
    const gradientList: Submission["lists"][number] = {
      name: "gradients",
      values: positions,
      write: (writer, index) => {
        const row = gradientRow(gradients, index, samples[index]!);
        const first = runOffsets[index]!;
        const own = { of: runs, first, count: runOffsets[index + 1]! - first };
        writeGradient(writer, row, gradients.dtype, index, own);
      },
    };
    return {
      ...asked,
      formats,
      head: {},
      flags: {},
      lists: [sampleList(encoded, CUSTOM), gradientList],
      samples: encoded,
      // The gradients are of the whole batch already, and they add up.
      divisible: true,
      holdsTurn: false,
    };
  };
  return { ...asked, check };
}

/** What the check of a prompt takes, in elements of a `Pace`. */
const PROMPT_ELEMENTS = 64;

/** `sampling` gives all members of the body but its prompts. */
export function samplePass(prompts: readonly TokenRow[], sampling: () => object): Asked {
  const asked = { kind: "sample", effect: "reads", count: prompts?.length ?? 0 } as const;
  const check = async (): Promise<Submission> => {
    if (!Array.isArray(prompts) || prompts.length === 0) {
      throw new InputError("prompts", "expected an array with at least one prompt");
    }
    const pace = new Pace();
    let values = 0;
    for (const [index, prompt] of prompts.entries()) {
      checkTokens(() => `prompts[${index}]`, prompt, {});
      values += prompt.length;
      if (pace.due(PROMPT_ELEMENTS)) await pace.rest();
    }
    return {
      ...asked,
      formats: EITHER_FORMAT,
      head: sampling(),
      flags: {},
      lists: [
        {
          name: "model_inputs",
          values,
          write: (writer, index) =>
            writeModelInput(writer, prompts[index]!, { path: "prompts[*]", sample: index }),
        },
      ],
      // One seed is for all prompts of a request.
      divisible: false,
      holdsTurn: false,
    };
  };
  return { ...asked, check };
}

/** An operation without samples; `head` gives the members of its body, where it has one. */
export function smallPass(kind: OperationKind, effect: Effect, head?: () => object): Asked {
  const asked = { kind, effect, count: 0 };
  const check = async (): Promise<Submission> => ({
    ...asked,
    formats: EITHER_FORMAT,
    head: head?.(),
    flags: {},
    lists: [],
    divisible: false,
    holdsTurn: false,
  });
  return { ...asked, check };
}

function sampleList(encoded: EncodedSamples, plan: LossPlan): Submission["lists"][number] {
  return {
    name: "samples",
    values: valuesOf(encoded.checked, plan),
    write: (writer, index, format) => writeSample(writer, encoded.checked, index, plan, format),
    // Other losses send rows of their own.
    kept: (...which) => (plan.asCustom ? encoded.text(...which) : undefined),
  };
}
