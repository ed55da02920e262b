// The two wire formats, field by field, and the choice between them.

import { describe, expect, test } from "vitest";
import type { LossConfig } from "../../src/client/loss.ts";
import type { Sample } from "../../src/client/sample.ts";
import { completed, PENDING, rejection, SAMPLES, scriptedSession, status } from "./server.ts";

const FORWARD = completed({
  loss: 1,
  loss_fn_outputs: [
    { tensors: { logprobs: { data: [0, -1, -2], dtype: "float32" } } },
    { tensors: { logprobs: { data: [0, -3], dtype: "float32" } } },
  ],
});
const LOSS = completed({ loss: 1.5, metrics: {} });

const LARGE = 2n ** 63n - 1n;
const BEYOND_DOUBLES = "9007199254740993";

const POLICY_SAMPLE: Sample = {
  tokens: new Int32Array([5, 6]),
  targets: new BigInt64Array([6n, 7n]),
  weights: new Float32Array([0, 1]),
  logprobs: new Float32Array([0, -0.1]),
  advantages: [0, 2.5],
  referenceLogprobs: [0, -0.2],
};

const input = (tokens: unknown[]) => ({ chunks: [{ encoded_text: { tokens } }] });
const typed = (data: unknown[], dtype: string) => ({ data, dtype });

/** The parsed body of one operation in the given format. */
async function bodyOf(
  wireFormat: "loss_inputs" | "loss_fn_inputs",
  call: (session: Awaited<ReturnType<typeof scriptedSession>>["session"]) => Promise<unknown>,
  answer: object = LOSS,
) {
  const { session, requests } = await scriptedSession([answer], { wireFormat });
  await call(session);
  expect(requests[0]!.headers["content-length"]).toBe(String(Buffer.byteLength(requests[0]!.body)));
  return { body: JSON.parse(requests[0]!.body), text: requests[0]!.body, path: requests[0]!.path };
}

describe("loss_inputs", () => {
  test("forward", async () => {
    const { body, path } = await bodyOf("loss_inputs", (session) => session.forward(SAMPLES), FORWARD);
    expect(path).toBe("/v1/rl/training-sessions/s-1/operations/forward-backward");
    expect(body).toEqual({
      loss: { type: "LOSS_TYPE_CROSS_ENTROPY" },
      forward_only: true,
      return_loss_fn_outputs: true,
      samples: [
        {
          model_input: input([5, 6, 7]),
          loss_inputs: {
            target_tokens: typed([6, 7, 8], "D_TYPE_INT64"),
            weights: typed([0, 1, 1], "D_TYPE_FLOAT32"),
          },
        },
        {
          model_input: input([1, 2]),
          loss_inputs: {
            target_tokens: typed([2, 3], "D_TYPE_INT64"),
            weights: typed([0, 0.5], "D_TYPE_FLOAT32"),
          },
        },
      ],
    });
  });

  test("custom pass with rows of numbers", async () => {
    const gradients = [[0, -0.5, 0.1], new Float32Array([0, -1e-8])];
    const { body, text, path } = await bodyOf("loss_inputs", (session) =>
      session.customForwardBackward(SAMPLES, gradients),
    );
    expect(path).toBe("/v1/rl/training-sessions/s-1/operations/custom-forward-backward");
    expect(Object.keys(body)).toEqual(["samples", "gradients"]);
    expect(body.samples[0].loss_inputs.weights).toEqual(typed([0, 1, 1], "D_TYPE_FLOAT32"));
    expect(body.gradients).toEqual([
      typed([0, -0.5, 0.1], "D_TYPE_FLOAT32"),
      typed([0, -1e-8], "D_TYPE_FLOAT32"),
    ]);
    expect(text).toContain('"data":[0,-0.5,0.1]');
  });

  test("custom pass with bfloat16 bits", async () => {
    const rows = [new Uint16Array([0, 0x3dcd, 0xbf00]), new Uint16Array([0, 1])];
    const gradients = { dtype: "bfloat16" as const, rows: 2, row: (sample: number) => rows[sample]! };
    const { text } = await bodyOf("loss_inputs", (session) =>
      session.customForwardBackward(SAMPLES, gradients),
    );
    const written = text.slice(text.indexOf('"gradients"'), -1);
    expect(written).toBe(
      '"gradients":[{"data":[0,0.1,-0.5],"dtype":"D_TYPE_BFLOAT16"},{"data":[0,9e-41],"dtype":"D_TYPE_BFLOAT16"}]',
    );
  });

  test.each<[LossConfig, string, object | undefined, boolean]>([
    [{ type: "importance_sampling" }, "importance_sampling_inputs", undefined, false],
    [{ type: "ppo", clipLowThreshold: 0.8, clipHighThreshold: 1.2 }, "ppo_inputs", clip(0.8, 1.2), false],
    [{ type: "cispo", clipLowThreshold: 0, clipHighThreshold: 4 }, "cispo_inputs", clip(0, 4), false],
    [{ type: "dro", beta: 0.05 }, "dro_inputs", { beta: 0.05 }, false],
    [{ type: "grpo", beta: 0 }, "grpo_inputs", { beta: 0 }, false],
    [
      { type: "grpo", beta: 0.1, aggType: "token_mean", ratioType: "sequence" },
      "grpo_inputs",
      {
        beta: 0.1,
        agg_type: "GRPO_LOSS_AGGREGATION_TYPE_TOKEN_MEAN",
        ratio_type: "GRPO_LOSS_RATIO_TYPE_SEQUENCE",
      },
      true,
    ],
  ])("forward-backward with %j", async (loss, member, params, withReference) => {
    const { body } = await bodyOf("loss_inputs", (session) => session.forwardBackward([POLICY_SAMPLE], loss));
    expect(body).toEqual({
      loss: {
        type: `LOSS_TYPE_${loss.type.toUpperCase()}`,
        ...(params && { [`${loss.type}_params`]: params }),
      },
      samples: [
        {
          model_input: input([5, 6]),
          loss_inputs: {
            target_tokens: typed([6, 7], "D_TYPE_INT64"),
            weights: typed([0, 1], "D_TYPE_FLOAT32"),
            [member]: {
              advantages: typed([0, 2.5], "D_TYPE_FLOAT32"),
              logprobs: typed([0, -0.1], "D_TYPE_FLOAT32"),
              ...(withReference && { reference_logprobs: typed([0, -0.2], "D_TYPE_FLOAT32") }),
            },
          },
        },
      ],
    });
  });

  test("rows that the loss does not read stay here", async () => {
    const { body } = await bodyOf("loss_inputs", (session) =>
      session.forwardBackward([POLICY_SAMPLE], { type: "cross_entropy" }),
    );
    expect(Object.keys(body.samples[0].loss_inputs)).toEqual(["target_tokens", "weights"]);
  });

  test("routed experts inline, as base64 of little-endian uint16", async () => {
    const data = new Uint16Array([9, 1, 2, 258, 4, 5, 6]).subarray(1);
    const sample = { ...SAMPLES[0]!, routedExperts: { data, shape: [3, 1, 2] as const } };
    const { body } = await bodyOf("loss_inputs", (session) =>
      session.forwardBackward([sample], { type: "cross_entropy" }),
    );
    expect(body.samples[0].loss_inputs.routed_experts).toEqual({
      data: "AQACAAIBBAAFAAYA",
      shape: [3, 1, 2],
    });
  });

  test("large ids as strings", async () => {
    const { body } = await bodyOf("loss_inputs", (session) =>
      session.forwardBackward([{ tokens: [1, LARGE], targets: [BEYOND_DOUBLES, "7"], weights: [1, 1] }], {
        type: "cross_entropy",
      }),
    );
    expect(body.samples[0].model_input).toEqual(input([1, "9223372036854775807"]));
    expect(body.samples[0].loss_inputs.target_tokens.data).toEqual(["9007199254740993", 7]);
  });

  test("has no dppo", async () => {
    const { session, requests } = await scriptedSession([], { wireFormat: "loss_inputs" });
    const error = await rejection(session.forwardBackward([POLICY_SAMPLE], { type: "dppo" }));
    expect(error.message).toMatch(/^loss\.type: /);
    expect(requests).toEqual([]);
  });
});

describe("loss_fn_inputs", () => {
  test("forward", async () => {
    const { body } = await bodyOf("loss_fn_inputs", (session) => session.forward(SAMPLES), FORWARD);
    expect(body).toEqual({
      loss: { type: "LOSS_TYPE_CROSS_ENTROPY" },
      forward_only: true,
      return_loss_fn_outputs: true,
      samples: [
        {
          model_input: input([5, 6, 7]),
          loss_fn_inputs: { target_tokens: typed([6, 7, 8], "int64"), weights: typed([0, 1, 1], "float32") },
        },
        {
          model_input: input([1, 2]),
          loss_fn_inputs: { target_tokens: typed([2, 3], "int64"), weights: typed([0, 0.5], "float32") },
        },
      ],
    });
  });

  test("custom pass: dtypes of gradients stay in capitals", async () => {
    const { body } = await bodyOf("loss_fn_inputs", (session) =>
      session.customForwardBackward(SAMPLES, [
        [0, 1, 2],
        [0, 3],
      ]),
    );
    expect(body).toEqual({
      samples: [
        {
          model_input: input([5, 6, 7]),
          loss_fn_inputs: { target_tokens: typed([6, 7, 8], "int64"), weights: typed([0, 1, 1], "float32") },
        },
        {
          model_input: input([1, 2]),
          loss_fn_inputs: { target_tokens: typed([2, 3], "int64"), weights: typed([0, 0.5], "float32") },
        },
      ],
      gradients: [typed([0, 1, 2], "D_TYPE_FLOAT32"), typed([0, 3], "D_TYPE_FLOAT32")],
    });
  });

  test.each<[LossConfig, object | undefined, boolean]>([
    [{ type: "ppo" }, undefined, false],
    [{ type: "grpo", beta: 0.1 }, { beta: 0.1 }, true],
    [{ type: "dppo", deltaLow: 0.1, deltaHigh: 0.2 }, { delta_low: 0.1, delta_high: 0.2 }, false],
  ])("forward-backward with %j", async (loss, params, withReference) => {
    const { body } = await bodyOf("loss_fn_inputs", (session) =>
      session.forwardBackward([POLICY_SAMPLE], loss),
    );
    expect(body).toEqual({
      loss: {
        type: `LOSS_TYPE_${loss.type.toUpperCase()}`,
        ...(params && { [`${loss.type}_params`]: params }),
      },
      samples: [
        {
          model_input: input([5, 6]),
          loss_fn_inputs: {
            target_tokens: typed([6, 7], "int64"),
            weights: typed([0, 1], "float32"),
            advantages: typed([0, 2.5], "float32"),
            logprobs: typed([0, -0.1], "float32"),
            ...(withReference && { reference_logprobs: typed([0, -0.2], "float32") }),
          },
        },
      ],
    });
  });

  test("routed experts by key", async () => {
    const { body } = await bodyOf("loss_fn_inputs", (session) =>
      session.forwardBackward([{ ...SAMPLES[0]!, routedExpertsKey: 'k"1' }], { type: "cross_entropy" }),
    );
    expect(body.samples[0].routed_experts_key).toBe('k"1');
  });

  test("large target ids are numbers with all their digits, large input ids strings", async () => {
    const { text } = await bodyOf("loss_fn_inputs", (session) =>
      session.forwardBackward([{ tokens: [LARGE, 1], targets: [BEYOND_DOUBLES, LARGE], weights: [1, 1] }], {
        type: "cross_entropy",
      }),
    );
    expect(text).toContain('"tokens":["9223372036854775807",1]');
    expect(text).toContain('"data":[9007199254740993,9223372036854775807],"dtype":"int64"');
  });
});

function clip(low: number, high: number) {
  return { clip_low_threshold: low, clip_high_threshold: high };
}

describe("auto", () => {
  const formatOf = (body: string) => (body.includes('"loss_inputs"') ? "loss_inputs" : "loss_fn_inputs");
  const refuse = (message: string, code = 422) =>
    status(code, { error: { message, type: "invalid_request" } });
  const step = (session: Awaited<ReturnType<typeof scriptedSession>>["session"], options = {}) =>
    session.forwardBackward(SAMPLES, { type: "cross_entropy" }, options);

  test("begins with loss_inputs and stays with it once it was taken", async () => {
    const { session, requests } = await scriptedSession([LOSS, refuse("token 6 is out of vocabulary")]);
    await step(session);
    expect((await rejection(step(session))).code).toBe("ERR_UNPROCESSABLE_ENTITY");
    expect(requests.map(({ body }) => formatOf(body))).toEqual(["loss_inputs", "loss_inputs"]);
  });

  test.each([400, 422])("tries the other on a %d with a new key, and remembers", async (code) => {
    const { session, requests, client } = await scriptedSession([
      refuse("loss_fn_inputs: missing", code),
      LOSS,
      LOSS,
    ]);
    const { operation } = await step(session);
    expect(requests.map(({ body }) => formatOf(body))).toEqual(["loss_inputs", "loss_fn_inputs"]);
    const keys = requests.map(({ headers }) => headers["idempotency-key"]);
    expect(keys[0]).not.toBe(keys[1]);
    expect(operation.idempotencyKey).toBe(keys[1]);
    await step(await client.sessions.attach("s-1"));
    expect(formatOf(requests[2]!.body)).toBe("loss_fn_inputs");
  });

  test("a given key gets an ending of its own for the second body", async () => {
    const { session, requests } = await scriptedSession([refuse("loss_fn_inputs: missing"), PENDING, LOSS]);
    const { operation } = await step(session, { idempotencyKey: "mine" });
    expect(requests.slice(0, 2).map(({ headers }) => headers["idempotency-key"])).toEqual([
      "mine",
      "mine-loss_fn_inputs",
    ]);
    expect(operation.idempotencyKey).toBe("mine-loss_fn_inputs");
  });

  test.each([401, 409, 413, 429, 500])("does not try the other on a %d", async (code) => {
    const { session, requests } = await scriptedSession([refuse("no", code)]);
    expect(await rejection(step(session))).toMatchObject({ status: code });
    expect(requests.length).toBe(1);
  });

  test.each([
    ["loss_fn_inputs: missing", "sequence too long", 1],
    [
      "samples[0].loss_inputs: unknown field",
      "samples[0].loss_fn_inputs.target_tokens: out of vocabulary",
      1,
    ],
    ["samples[0].loss_inputs.weights: negative", "samples[0].loss_inputs: missing", 0],
    ["sequence too long", "loss_inputs: missing", 0],
    ["sequence too long", "sequence too long", 0],
  ])("both refused with %j and %j: throws the more telling one", async (first, second, telling) => {
    const { session, requests } = await scriptedSession([refuse(first), refuse(second)]);
    const error = await rejection(step(session));
    expect(error.message).toContain(`422: ${telling === 0 ? first : second} (`);
    expect(requests.length).toBe(2);
  });

  test("samples that only one format can carry go out in that one", async () => {
    const { session, requests } = await scriptedSession([LOSS, LOSS, refuse("no"), LOSS]);
    const keyed = [{ ...SAMPLES[0]!, routedExpertsKey: "k" }];
    const inline = [
      { ...SAMPLES[0]!, routedExperts: { data: new Uint16Array(3), shape: [3, 1, 1] as const } },
    ];
    await session.forwardBackward(keyed, { type: "cross_entropy" });
    await session.forwardBackward(inline, { type: "cross_entropy" });
    expect((await rejection(session.forwardBackward(keyed, { type: "cross_entropy" }))).code).toMatch(
      /^ERR_UNPROC/,
    );
    await session.forwardBackward([POLICY_SAMPLE], { type: "dppo" });
    expect(requests.map(({ body }) => formatOf(body))).toEqual([
      "loss_fn_inputs",
      "loss_inputs",
      "loss_fn_inputs",
      "loss_fn_inputs",
    ]);
    const both = [...keyed, ...inline];
    expect((await rejection(session.forward(both))).message).toBe(
      "samples[0].routedExpertsKey, sample 0: the wire format loss_inputs carries routedExperts instead",
    );
  });
});

describe("small bodies", () => {
  test("optimStep with Muon", async () => {
    const { body } = await bodyOf(
      "loss_inputs",
      (session) =>
        session.optimStep({
          muon: {
            learningRate: 0.02,
            momentum: 0.95,
            newtonSchulzSteps: 5,
            weightDecay: 0,
            adam: { beta1: 0.9 },
          },
        }),
      completed({ step: "7" }),
    );
    expect(body).toEqual({
      muon_params: {
        learning_rate: 0.02,
        momentum: 0.95,
        newton_schulz_steps: 5,
        weight_decay: 0,
        adam: { beta1: 0.9 },
      },
    });
  });

  test("optimStep refuses a misspelt name, a number that is none, and two optimizers", async () => {
    const { session, requests } = await scriptedSession([]);
    const message = async (optimizer: object) => (await rejection(session.optimStep(optimizer))).message;
    expect(await message({ adam: { learning_rate: 1 } })).toBe(
      "optimStep.adam.learning_rate: expected one of learningRate, beta1, beta2, eps, weightDecay, gradClipNorm; did you mean learningRate?",
    );
    expect(await message({ adam: { learningRate: Number.NaN } })).toMatch(
      /^optimStep\.adam\.learningRate: expected/,
    );
    expect(await message({ adam: {}, muon: {} })).toBe("optimStep: expected adam or muon, got both");
    expect(requests).toEqual([]);
  });

  test.each([
    [{}, "WEIGHT_SYNC_TYPE_SYNCHRONOUS"],
    [{ type: "background_publish" as const }, "WEIGHT_SYNC_TYPE_BACKGROUND_PUBLISH"],
    [{ type: "pipeline" as const }, "WEIGHT_SYNC_TYPE_PIPELINE"],
  ])("weightsSync with %j", async (sync, weight_sync_type) => {
    const answer = completed({ weights_version: "4" });
    const { body } = await bodyOf("loss_inputs", (session) => session.weightsSync(sync), answer);
    expect(body).toEqual({ weight_sync_type });
  });

  test("sample", async () => {
    const { body } = await bodyOf(
      "loss_inputs",
      (session) =>
        session.sample([[1, 2], new Int32Array([3])], {
          numSamples: 2,
          maxTokens: 16,
          temperature: 0.7,
          topP: 0.9,
          topK: -1,
          stop: ["\n", "é"],
          seed: 2n ** 62n,
          promptLogprobs: true,
          topkPromptLogprobs: 3,
          returnRoutedExperts: true,
        }),
      completed({ results: [{ sequences: [] }, { sequences: [] }] }),
    );
    expect(body).toEqual({
      model_inputs: [input([1, 2]), input([3])],
      num_samples: 2,
      prompt_logprobs: true,
      topk_prompt_logprobs: 3,
      return_routed_experts: true,
      sampling_params: {
        max_tokens: 16,
        temperature: 0.7,
        top_p: 0.9,
        top_k: -1,
        stop: ["\n", "é"],
        seed: "4611686018427387904",
      },
    });
  });

  test("checkpoints have no body", async () => {
    const answer = completed({ checkpoint: { id: "c-1", step: "3", created_at: "2026-01-01T00:00:00Z" } });
    const { session, requests } = await scriptedSession([answer, answer]);
    await session.trainingCheckpoint();
    await session.inferenceCheckpoint();
    expect(requests.map(({ path, body }) => [path.split("/").pop(), body])).toEqual([
      ["training-checkpoint", ""],
      ["inference-checkpoint", ""],
    ]);
  });
});
