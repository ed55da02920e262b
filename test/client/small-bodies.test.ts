// Bodies without samples: optimizer, weights sync, sampling, checkpoints.

import { expect, test } from "vitest";
import { bodyOf, input } from "./bodies.ts";
import { completed, rejection, scriptedSession } from "./server.ts";

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
