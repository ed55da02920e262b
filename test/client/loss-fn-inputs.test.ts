// The wire format loss_fn_inputs, field by field.

import { expect, test } from "vitest";
import type { LossConfig } from "../../src/client/loss.ts";
import { BEYOND_DOUBLES, bodyOf, FORWARD, input, LARGE, POLICY_SAMPLE, typed } from "./bodies.ts";
import { SAMPLES } from "./server.ts";

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
