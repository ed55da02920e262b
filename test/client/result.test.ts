// Answers of operations: values as the API documents them, and what a wrong one is called.

import { describe, expect, test } from "vitest";
import { completed, rejection, SAMPLES, scriptedSession } from "./server.ts";

const rows = (...data: unknown[][]) =>
  data.map((row) => ({ tensors: { logprobs: { data: row, dtype: "float32" } } }));
const scored = (...data: unknown[][]) =>
  completed({ loss: 3, metrics: { a: 1, b: null }, loss_fn_outputs: rows(...data) });

async function forward(answer: object) {
  const { session } = await scriptedSession([answer], { wireFormat: "loss_inputs" });
  return session.forward(SAMPLES);
}

describe("log-probabilities", () => {
  test("one full row per sample, as float32", async () => {
    const { logprobs, loss, metrics, operation } = await forward(scored([0, -1.25, -0.1], [0, -3]));
    expect(logprobs).toEqual([new Float32Array([0, -1.25, -0.1]), new Float32Array([0, -3])]);
    expect(loss).toBe(3);
    expect(metrics).toEqual({ a: 1, b: Number.NaN });
    expect(operation).toMatchObject({ id: "op-1", kind: "forward-backward" });
  });

  test.each([null, 1e300])("%s is 0 where the weight is 0, else an error", async (value) => {
    expect((await forward(scored([value, -1, -2], [0, -3]))).logprobs[0]).toEqual(
      new Float32Array([0, -1, -2]),
    );
    const error = await rejection(forward(scored([0, -1, -2], [0, value])));
    expect(error).toMatchObject({ code: "ERR_RESPONSE", sample: 1, position: 1, garbled: false });
    expect(error.message).toMatch(
      /^output\.loss_fn_outputs\[1\]\.tensors\.logprobs\.data, sample 1, position 1: expected a finite number within float32's range, got /,
    );
  });

  test.each([
    [scored([0, -1, -2]), /^output\.loss_fn_outputs\[1\]\.tensors\.logprobs\.data, sample 1: expected a row/],
    [scored([0, -1, -2], [0, 1], [0]), /^answer: expected 2 entries/],
    [
      scored([0, -1, -2], [0]),
      /^output\.loss_fn_outputs\[1\]\.tensors\.logprobs\.data, sample 1: expected 2 numbers, one per target, got 1 /,
    ],
    [
      scored([0, "NaN", -2], [0, 1]),
      /data, sample 0, position 1: expected a finite number within float32's range, got "NaN" \(POST /,
    ],
    [scored([0, "1.5", -2], [0, 1]), /data, sample 0, position 1: expected a number, got "1.5" \(POST /],
    [completed({ loss: 1, loss_fn_outputs: { 0: {} } }), /^output\.loss_fn_outputs: expected an array/],
    [
      completed({ loss: 1, loss_fn_outputs: [{ tensors: { logprobs: { data: null } } }, {}] }),
      /^output\.loss_fn_outputs\[0\]\.tensors\.logprobs\.data, sample 0: expected an array of numbers/,
    ],
    [
      completed({ loss: 1, loss_fn_outputs: [{}, {}] }),
      /^output\.loss_fn_outputs\[0\]\.tensors: expected a value/,
    ],
    [completed({ loss_fn_outputs: rows([0, 0, 0], [0, 0]) }), /^output\.loss: expected a value, got nothing/],
  ])("a wrong answer: %j", async (answer, message) => {
    const error = await rejection(forward(answer));
    expect(error.code).toBe("ERR_RESPONSE");
    expect(error.message).toMatch(message);
  });

  test.each([{ loss: 1 }, { loss: 1, loss_fn_outputs: [] }])("none at all: %j", async (output) => {
    const { session, requests } = await scriptedSession([completed(output), completed(output)]);
    const one = session.forward(SAMPLES.slice(0, 1));
    const error = await rejection(one);
    expect(requests.length).toBe(1);
    expect(error.code).toBe("ERR_NO_LOGPROBS");
    expect(error.message).toMatch(/score fewer samples at a time/);
  });

  test("of a built-in loss, where asked for", async () => {
    const answer = scored([0, -1, -2], [0, -3]);
    const { session, requests } = await scriptedSession([answer, answer]);
    const asked = await session.forwardBackward(SAMPLES, { type: "cross_entropy" }, { returnOutputs: true });
    expect(asked.outputs).toEqual([
      { logprobs: new Float32Array([0, -1, -2]) },
      { logprobs: new Float32Array([0, -3]) },
    ]);
    expect(JSON.parse(requests[0]!.body).return_loss_fn_outputs).toBe(true);
    expect((await session.forwardBackward(SAMPLES, { type: "cross_entropy" })).outputs).toBeUndefined();
    expect(JSON.parse(requests[1]!.body)).not.toHaveProperty("return_loss_fn_outputs");
  });
});

test.each(["12", 12])("64-bit integers as %j", async (value) => {
  const checkpoint = { id: "c-1", step: value, created_at: "2026-01-01T00:00:00Z" };
  const { session } = await scriptedSession([
    completed({ step: value }),
    completed({ weights_version: value }),
    completed({ checkpoint: { ...checkpoint, registration: { id: "a", revision_id: "b" } } }),
    completed({ checkpoint: { ...checkpoint, registration: { adapter: { id: "a", revision_id: "b" } } } }),
  ]);
  expect((await session.optimStep()).step).toBe(12);
  expect((await session.weightsSync()).weightsVersion).toBe(12);
  const expected = { id: "c-1", step: 12, createdAt: "2026-01-01T00:00:00Z" };
  const artifact = { id: "a", revisionId: "b" };
  expect((await session.trainingCheckpoint()).checkpoint).toEqual({
    ...expected,
    registration: { training: artifact },
  });
  expect((await session.inferenceCheckpoint()).checkpoint).toEqual({
    ...expected,
    registration: { adapter: artifact },
  });
});

describe("samples", () => {
  const sequence = (change: object = {}) => ({
    tokens: ["5", 6, "9007199254740993"],
    logprobs: [-0.5, -1, -2],
    stop_reason: "STOP_REASON_STOP",
    prompt_cache_hit_tokens: 2,
    routed_experts_key: "k",
    ...change,
  });
  const result = (change: object = {}) => ({
    sequences: [sequence()],
    policy_segments: [{ version: 3, start_token: 0 }],
    prompt_logprobs: [0, -1],
    topk_prompt_logprobs: [{}, { token_ids: [4, 5], logprobs: [-0.5, -1] }],
    ...change,
  });
  const sample = async (results: object[]) => {
    const { session } = await scriptedSession([completed({ results })]);
    return session.sample([[1, 2]]);
  };

  test("all fields", async () => {
    expect((await sample([result()])).results).toEqual([
      {
        sequences: [
          {
            tokens: [5, 6, 9007199254740993n],
            logprobs: new Float32Array([-0.5, -1, -2]),
            stopReason: "stop",
            promptCacheHitTokens: 2,
            routedExpertsKey: "k",
          },
        ],
        policySegments: [{ version: 3, startToken: 0 }],
        promptLogprobs: new Float32Array([0, -1]),
        topkPromptLogprobs: [
          { tokenIds: [], logprobs: new Float32Array(0) },
          { tokenIds: [4, 5], logprobs: new Float32Array([-0.5, -1]) },
        ],
      },
    ]);
  });

  test("optional fields may be missing", async () => {
    const { results } = await sample([{ sequences: [{ tokens: [], stop_reason: "STOP_REASON_LENGTH" }] }]);
    expect(results[0]).toMatchObject({
      sequences: [{ tokens: [], logprobs: undefined, stopReason: "length", promptCacheHitTokens: 0 }],
      policySegments: [],
      promptLogprobs: undefined,
    });
  });

  test.each([
    [[], /^output\.results: expected 1 entries, one per prompt/],
    [
      [result({ sequences: [sequence({ tokens: [1, 2, 2 ** 53] })] })],
      /^output\.results\[0\]\.sequences\[0\]\.tokens\[2\]: expected an integer within 2\^53 - 1 or a decimal string/,
    ],
    [
      [result({ sequences: [sequence({ logprobs: [-1] })] })],
      /^output\.results\[0\]\.sequences\[0\]\.logprobs: expected 3 numbers, one per token/,
    ],
    [
      [result({ sequences: [sequence({ logprobs: [-1, null, -2] })] })],
      /^output\.results\[0\]\.sequences\[0\]\.logprobs\[1\]: expected a number, got null/,
    ],
    [
      [result({ sequences: [sequence({ stop_reason: "STOP_REASON_WHIM" })] })],
      /^output\.results\[0\]\.sequences\[0\]\.stop_reason: expected LENGTH or STOP, got "STOP_REASON_WHIM"/,
    ],
  ])("a wrong answer: %j", async (results, message) => {
    expect((await rejection(sample(results))).message).toMatch(message);
  });
});
