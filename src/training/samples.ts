// Builds training samples from token sequences.
import type { NumberRow, Sample, TokenRow } from "../client/sample.ts";
import { InputError } from "../errors.ts";

/**
 * Builds a sample from prompt and completion as one token sequence and a mask of the same length: 0 over the prompt, 1
 * (or a weight) over the completion.
 *
 * The model predicts each token from those before it, so the rows of the sample are one shorter than the sequence:
 * its input drops the last token, targets and weights drop the first. Nothing predicts the first token, so its mask
 * entry is not used.
 *
 * @throws {InputError} if lengths differ, the sequence has fewer than two tokens, or a mask entry is negative or not
 * finite.
 *
 * @example
 * buildCrossEntropySample({ tokens: [...prompt, ...completion], mask: [...prompt.map(() => 0), ...completion.map(() => 1)] })
 */
export function buildCrossEntropySample({ tokens, mask }: { tokens: TokenRow; mask: NumberRow }): Sample {
  if (tokens.length < 2) throw new InputError("tokens", `expected at least 2 tokens, got ${tokens.length}`);
  if (mask.length !== tokens.length) {
    throw new InputError("mask", `expected ${tokens.length} entries, as many as tokens, got ${mask.length}`);
  }
  const weights = Float32Array.from({ length: mask.length - 1 }, (_, position) => mask[position + 1]!);
  const wrong = weights.findIndex((weight) => !(Number.isFinite(weight) && weight >= 0));
  if (wrong >= 0) {
    throw new InputError("mask", `expected a finite number of at least 0, got ${mask[wrong + 1]}`, {
      position: wrong + 1,
    });
  }
  return { tokens: tokens.slice(0, -1), targets: tokens.slice(1), weights };
}

/**
 * The loss mask of a sample, one entry per target position: its weights. It lines up with the sample's
 * log-probabilities and gradients.
 */
export const extractLossMask = (sample: Sample): Float32Array => Float32Array.from(sample.weights);
