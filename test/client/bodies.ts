// What tests of request bodies share: samples, answers, and the body that a call sends.

import { expect } from "vitest";
import type { Sample } from "../../src/client/sample.ts";
import type { Session } from "../../src/client/session.ts";
import { completed, scriptedSession } from "./server.ts";

export const FORWARD = completed({
  loss: 1,
  loss_fn_outputs: [
    { tensors: { logprobs: { data: [0, -1, -2], dtype: "float32" } } },
    { tensors: { logprobs: { data: [0, -3], dtype: "float32" } } },
  ],
});
export const LOSS = completed({ loss: 1.5, metrics: {} });

export const LARGE = 2n ** 63n - 1n;
export const BEYOND_DOUBLES = "9007199254740993";

export const POLICY_SAMPLE: Sample = {
  tokens: new Int32Array([5, 6]),
  targets: new BigInt64Array([6n, 7n]),
  weights: new Float32Array([0, 1]),
  logprobs: new Float32Array([0, -0.1]),
  advantages: [0, 2.5],
  referenceLogprobs: [0, -0.2],
};

export const input = (tokens: unknown[]) => ({ chunks: [{ encoded_text: { tokens } }] });
export const typed = (data: unknown[], dtype: string) => ({ data, dtype });

/** The parsed body of one operation in the given format. */
export async function bodyOf(
  wireFormat: "loss_inputs" | "loss_fn_inputs",
  call: (session: Session) => Promise<unknown>,
  answer: object = LOSS,
) {
  const { session, requests } = await scriptedSession([answer], { wireFormat });
  await call(session);
  expect(requests[0]!.headers["content-length"]).toBe(String(Buffer.byteLength(requests[0]!.body)));
  return { body: JSON.parse(requests[0]!.body), text: requests[0]!.body, path: requests[0]!.path };
}
