// A prompt and a response as one training sample, and as rows that line up with it.
import { isRow, type NumberRow, type Sample, type TokenRow } from "../client/sample.ts";
import { describe, InputError } from "../errors.ts";
import { buildCrossEntropySample } from "./samples.ts";

/** What answers a prompt: its tokens, or these with more, such as a sequence that `session.sample` gave. */
export type TokenResponse =
  | TokenRow
  | {
      readonly tokens: TokenRow;
      /** Weight of each token, at least 0. Default 1. */
      readonly weights?: NumberRow | undefined;
      /** Log-probability of each token when it was sampled. */
      readonly logprobs?: NumberRow | undefined;
    };

interface ReadResponse {
  readonly tokens: TokenRow;
  readonly weights: NumberRow | undefined;
  readonly logprobs: NumberRow | undefined;
}

/** Reads a response, which is empty only where that is allowed. */
export function readResponse(path: string, given: unknown, mayBeEmpty = false): ReadResponse {
  const { tokens, weights, logprobs } = (isRow(given) ? { tokens: given } : (given ?? {})) as ReadResponse;
  if (!isRow(tokens)) throw new InputError(path, `expected tokens, got ${describe(given)}`);
  if (tokens.length === 0 && !mayBeEmpty)
    throw new InputError(path, "expected at least one token, got none: there is nothing to train on");
  for (const [name, row] of Object.entries({ weights, logprobs })) {
    if (row !== undefined && row.length !== tokens.length) {
      const problem = `expected ${tokens.length} numbers, one per token, got ${row.length}`;
      throw new InputError(`${path}.${name}`, problem);
    }
  }
  return { tokens, weights, logprobs };
}

/** Reads a prompt. Without one nothing would predict the first token of a response. */
export function readPrompt(path: string, given: unknown): TokenRow {
  if (!isRow(given)) throw new InputError(path, `expected tokens, got ${describe(given)}`);
  if (given.length === 0) {
    const reason =
      "nothing would predict the first token of a response; begin with the one that begins texts";
    throw new InputError(path, `expected at least one token, got none: ${reason}`);
  }
  return given as TokenRow;
}

/** Whether two rows of tokens are the same, however the tokens are written. */
export const sameTokens = (a: TokenRow, b: TokenRow): boolean =>
  a.length === b.length && Array.from(a).every((token, i) => String(token) === String(b[i]));

/** The sample that trains on a response only; a prompt of one token and no response has no position to train. */
export function responseSample(prompt: TokenRow, { tokens, weights }: ReadResponse): Sample {
  const all = [...prompt, ...tokens];
  const mask = [
    ...Array<number>(prompt.length).fill(0),
    ...Array.from(weights ?? Array(tokens.length).fill(1)),
  ];
  return buildCrossEntropySample({ tokens: all, mask });
}

/** Numbers of a response's tokens in the row of its sample: the first of them stands where the prompt ends. */
export function responseRow(prompt: TokenRow, numbers: NumberRow): Float32Array {
  const row = new Float32Array(prompt.length - 1 + numbers.length);
  row.set(Array.from(numbers), prompt.length - 1);
  return row;
}
