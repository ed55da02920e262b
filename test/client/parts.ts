// A batch to be cut into parts, and scores by which a row in the wrong place would show.

import type { Sample } from "../../src/client/sample.ts";
import { seededRandom } from "../helpers.ts";
import { completed, type Received } from "./server.ts";

const random = seededRandom(3);
export const SAMPLES: Sample[] = Array.from({ length: 8 }, (_, index) => {
  const length = 2 + index;
  const tokens = Array.from({ length }, () => 1 + Math.floor(random() * 200));
  return { tokens, targets: tokens, weights: tokens.map((_, t) => (t === 0 ? 0 : 1)) };
});
export const GRADIENTS = SAMPLES.map(({ weights }) =>
  Float32Array.from(weights, (weight) => weight * (random() - 0.5) * 0.01),
);

export interface Part {
  readonly samples: { model_input: { chunks: { encoded_text: { tokens: number[] } }[] } }[];
  readonly gradients: { data: number[]; dtype: string }[];
}
export const partOf = ({ body }: Received) => JSON.parse(body) as Part;
export const lengthsOf = (request: Received) =>
  partOf(request).samples.map(({ model_input }) => model_input.chunks[0]!.encoded_text.tokens.length);

/** Scores made of the tokens, so that a row in the wrong place would show. */
export const scored = (request: Received) =>
  completed({
    loss: partOf(request).samples.length,
    metrics: { some: 1 },
    loss_fn_outputs: partOf(request).samples.map(({ model_input }) => ({
      tensors: { logprobs: { data: model_input.chunks[0]!.encoded_text.tokens.map((token) => -token) } },
    })),
  });
export const SCORES = SAMPLES.map(({ tokens }) => Float32Array.from(tokens as number[], (token) => -token));
