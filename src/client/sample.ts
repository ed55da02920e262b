// A training sample as the caller holds it, and the checks of its shape.

import { describe, InputError } from "../errors.ts";

/**
 * Token ids, from 0 to 2^63 - 1. Plain numbers may go up to 2^53 - 1; larger ids are given as BigInt or as decimal
 * strings and are sent without loss of digits.
 */
export type TokenRow = Int32Array | BigInt64Array | readonly (number | bigint | string)[];

/** Numbers, one per target position. */
export type NumberRow = ArrayLike<number>;

/** Which experts a mixture-of-experts model chose while generating, so that training can choose them again. */
export interface RoutedExperts {
  /** Expert indices, row-major over (token, layer, k). */
  readonly data: Uint16Array;
  /** [tokens, layers, experts per token]. */
  readonly shape: readonly [number, number, number];
}

/**
 * One training sample. All rows have the same length: slot t describes the token predicted at input position t, so
 * `targets[t]` is the token that follows `tokens[t]`. Rows must not change until the call that uses them has settled, and
 * the buffers of typed arrays must not be transferred: other threads read them in place.
 */
export interface Sample {
  /** Input tokens: prompt and response without its last token. */
  readonly tokens: TokenRow;
  /** Target tokens: the same sequence without its first token. */
  readonly targets: TokenRow;
  /**
   * Weight of each target, 0 or more; 0 leaves the position out. The built-in cross-entropy multiplies by it, the other
   * built-in losses only ask whether it is 0.
   */
  readonly weights: NumberRow;
  /** Log-probabilities at sampling time; for the built-in policy losses. */
  readonly logprobs?: NumberRow | undefined;
  /** Advantage of each target; for the built-in policy losses. */
  readonly advantages?: NumberRow | undefined;
  /** Reference log-probabilities; for the built-in loss `grpo` with `beta` above 0. */
  readonly referenceLogprobs?: NumberRow | undefined;
  /** Routing sent with the sample; the wire format `loss_inputs` only. */
  readonly routedExperts?: RoutedExperts | undefined;
  /** Key of the routing that the service kept of a sampled sequence; the wire format `loss_fn_inputs` only. */
  readonly routedExpertsKey?: string | undefined;
}

/** Names of a sample's rows of plain numbers. */
export type NumberRowName = "weights" | "logprobs" | "advantages" | "referenceLogprobs";

export function isRow(value: unknown): value is ArrayLike<unknown> {
  return Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
}

export function checkTokens(path: () => string, row: unknown, at: { sample?: number }): void {
  if (!isRow(row)) throw new InputError(path(), `expected an array of tokens, got ${describe(row)}`, at);
  if (row.length === 0) throw new InputError(path(), "expected at least one token, got none", at);
}
