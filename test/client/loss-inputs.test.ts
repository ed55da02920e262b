// The wire format loss_inputs, field by field.

import { expect, test } from "vitest";
import type { LossConfig } from "../../src/client/loss.ts";
import { BEYOND_DOUBLES, bodyOf, FORWARD, input, LARGE, POLICY_SAMPLE, typed } from "./bodies.ts";
import { rejection, SAMPLES, scriptedSession } from "./server.ts";

function clip(low: number, high: number) {
  return { clip_low_threshold: low, clip_high_threshold: high };
}

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
