// Bodies that no client should send: each gets its 4xx with the field named, and the trainer lives on.
import { afterAll, beforeAll, expect, test } from "vitest";
import { Api, CROSS_ENTROPY, forward, open, prompt, rowOf, typed } from "./api.ts";

let api: Api;
let session: string;
beforeAll(async () => {
  api = await Api.start({ bodyLimitBytes: 200_000 });
  session = await api.session();
});
afterAll(() => api.trainer.close());

const row = rowOf("Moths");
const good = open(row);
const { model_input, loss_fn_inputs: inputs } = good;
const fields = (changes: object) => forward([{ model_input, loss_fn_inputs: { ...inputs, ...changes } }]);
const tokens = (list: unknown) =>
  forward([{ ...good, model_input: { chunks: [{ encoded_text: { tokens: list } }] } }]);
const custom = (gradients: unknown) => ({ samples: [good], gradients });
const lossOf = (loss: unknown) => ({ loss, samples: [good] });
const ints = (data: unknown) => ({ data, dtype: "int64" });
const floats = (data: unknown) => ({ data, dtype: "float32" });
const policy = { logprobs: row.weights.map(() => -1), advantages: row.weights };
const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
const long = rowOf("x".repeat(66));

type Case = readonly [name: string, kind: string, body: unknown, status: number, param: string | null];
const F = "forward-backward";
const C = "custom-forward-backward";
const S = "sample";
const O = "optim-step";
const cases: readonly Case[] = [
  ["an empty body", F, undefined, 422, null],
  ["no JSON", F, "{", 400, null],
  ["bytes", F, "\u0000\u0001\u0002", 400, null],
  ["NaN in JSON", C, '{"samples":[],"gradients":[NaN]}', 400, null],
  ["an array", F, [], 422, null],
  ["null", F, "null", 422, null],
  ["a string", F, '"x"', 422, null],
  ["deep nesting", F, nested(90_000), 422, null],
  ["deep nesting in a field", F, `{"loss":${nested(90_000)},"samples":[]}`, 422, "loss"],
  ["too large", F, `"${"x".repeat(200_001)}"`, 413, null],
  ["a polluted prototype", F, '{"__proto__":{"loss":1},"samples":[]}', 422, "loss"],
  ["no loss", F, { samples: [good] }, 422, "loss"],
  ["an unknown loss", F, lossOf({ type: "LOSS_TYPE_X" }), 422, "loss.type"],
  ["an unspecified loss", F, lossOf({ type: "LOSS_TYPE_UNSPECIFIED" }), 422, "loss.type"],
  ["DPPO", F, lossOf({ type: "LOSS_TYPE_DPPO" }), 422, "loss.type"],
  ["a loss without a type", F, lossOf({}), 422, "loss.type"],
  ["parameters of another loss", F, lossOf({ ...CROSS_ENTROPY, ppo_params: {} }), 422, "loss.ppo_params"],
  ["DRO without beta", F, lossOf({ type: "LOSS_TYPE_DRO" }), 422, "loss.dro_params.beta"],
  [
    "a clip above 1 below",
    F,
    lossOf({ type: "LOSS_TYPE_PPO", ppo_params: { clip_low_threshold: 1.5 } }),
    422,
    "loss.ppo_params.clip_low_threshold",
  ],
  [
    "a negative beta",
    F,
    lossOf({ type: "LOSS_TYPE_GRPO", grpo_params: { beta: -1 } }),
    422,
    "loss.grpo_params.beta",
  ],
  [
    "an unknown aggregation",
    F,
    lossOf({ type: "LOSS_TYPE_GRPO", grpo_params: { agg_type: "X" } }),
    422,
    "loss.grpo_params.agg_type",
  ],
  ["no samples", F, { loss: CROSS_ENTROPY }, 422, "samples"],
  ["an empty batch", F, forward([]), 422, "samples"],
  ["too many samples", F, { loss: CROSS_ENTROPY, samples: new Array(5000).fill(0) }, 422, "samples"],
  ["samples that are numbers", F, { loss: CROSS_ENTROPY, samples: [1] }, 422, "samples[0]"],
  ["no model_input", F, forward([{ loss_fn_inputs: inputs }]), 422, "samples[0].model_input"],
  ["no chunks", F, forward([{ ...good, model_input: { chunks: [] } }]), 422, "samples[0].model_input.chunks"],
  ["no tokens", F, tokens([]), 422, "samples[0].model_input"],
  [
    "a token beyond the vocabulary",
    F,
    tokens([1, 257, 3, 4]),
    422,
    "samples[0].model_input.chunks[0].encoded_text.tokens[1]",
  ],
  [
    "a negative token",
    F,
    tokens([-1, 2, 3, 4]),
    422,
    "samples[0].model_input.chunks[0].encoded_text.tokens[0]",
  ],
  [
    "a fractional token",
    F,
    tokens([1.5, 2, 3, 4]),
    422,
    "samples[0].model_input.chunks[0].encoded_text.tokens[0]",
  ],
  [
    "a huge token",
    F,
    tokens([1, 2, 3, "99999999999999999999"]),
    422,
    "samples[0].model_input.chunks[0].encoded_text.tokens[3]",
  ],
  [
    "a token in words",
    F,
    tokens([1, 2, 3, "4e0"]),
    422,
    "samples[0].model_input.chunks[0].encoded_text.tokens[3]",
  ],
  [
    "a null token",
    F,
    tokens([1, 2, 3, null]),
    422,
    "samples[0].model_input.chunks[0].encoded_text.tokens[3]",
  ],
  ["a row beyond the context", F, forward([open(long)]), 422, "samples[0].model_input"],
  ["both formats at once", F, forward([{ ...good, ...typed(row) }]), 422, "samples[0]"],
  ["neither format", F, forward([{ model_input }]), 422, "samples[0]"],
  [
    "no targets",
    F,
    forward([{ model_input, loss_fn_inputs: {} }]),
    422,
    "samples[0].loss_fn_inputs.target_tokens",
  ],
  ["short targets", F, fields({ target_tokens: ints([1]) }), 422, "samples[0].loss_fn_inputs.target_tokens"],
  [
    "float targets",
    F,
    fields({ target_tokens: floats(row.targets) }),
    422,
    "samples[0].loss_fn_inputs.target_tokens.dtype",
  ],
  [
    "string targets",
    F,
    fields({ target_tokens: ints(row.targets.map(String)) }),
    422,
    "samples[0].loss_fn_inputs.target_tokens.data[0]",
  ],
  [
    "targets beyond the vocabulary",
    F,
    fields({ target_tokens: ints(row.targets.map(() => 300)) }),
    422,
    "samples[0].loss_fn_inputs.target_tokens.data[0]",
  ],
  ["no dtype", F, fields({ weights: { data: row.weights } }), 422, "samples[0].loss_fn_inputs.weights.dtype"],
  [
    "the other format's dtype",
    F,
    fields({ weights: { data: row.weights, dtype: "D_TYPE_FLOAT32" } }),
    422,
    "samples[0].loss_fn_inputs.weights.dtype",
  ],
  [
    "no weights",
    F,
    forward([{ model_input, loss_fn_inputs: { target_tokens: inputs.target_tokens } }]),
    422,
    "samples[0].loss_fn_inputs.weights",
  ],
  [
    "long weights",
    F,
    fields({ weights: floats([...row.weights, 1]) }),
    422,
    "samples[0].loss_fn_inputs.weights",
  ],
  [
    "a negative weight",
    F,
    fields({ weights: floats(row.weights.map(() => -1)) }),
    422,
    "samples[0].loss_fn_inputs.weights.data[0]",
  ],
  [
    "a null weight",
    F,
    fields({ weights: floats(row.weights.map(() => null)) }),
    422,
    "samples[0].loss_fn_inputs.weights.data[0]",
  ],
  ["weights and mask", F, fields({ mask: ints(row.weights) }), 422, "samples[0].loss_fn_inputs"],
  [
    "a wrong shape",
    F,
    fields({ weights: { ...floats(row.weights), shape: [2, 2] } }),
    422,
    "samples[0].loss_fn_inputs.weights.shape",
  ],
  [
    "a sparse tensor",
    F,
    fields({ weights: { ...floats(row.weights), sparse_crow_indices: [0] } }),
    422,
    "samples[0].loss_fn_inputs.weights.sparse_crow_indices",
  ],
  [
    "data that is an object",
    F,
    fields({ weights: floats({ 0: 1 }) }),
    422,
    "samples[0].loss_fn_inputs.weights.data",
  ],
  ["a flag in words", F, { ...forward([good]), forward_only: "yes" }, 422, "forward_only"],
  ["an uploaded payload", F, { ...forward([good]), payload_id: "p" }, 422, "payload_id"],
  [
    "PPO without advantages",
    F,
    { loss: { type: "LOSS_TYPE_PPO" }, samples: [open(row, { logprobs: policy.logprobs })] },
    422,
    "samples[0].loss_fn_inputs.advantages",
  ],
  [
    "GRPO with beta and no reference",
    F,
    { loss: { type: "LOSS_TYPE_GRPO", grpo_params: { beta: 0.1 } }, samples: [open(row, policy)] },
    422,
    "samples[0].loss_fn_inputs.reference_logprobs",
  ],
  [
    "a reference in some samples only",
    F,
    {
      loss: { type: "LOSS_TYPE_GRPO" },
      samples: [open(row, policy), open(row, { ...policy, reference_logprobs: row.weights })],
    },
    422,
    "samples[0]",
  ],
  [
    "PPO in the older format without its inputs",
    F,
    { loss: { type: "LOSS_TYPE_PPO" }, samples: [typed(row)] },
    422,
    "samples[0].loss_inputs.ppo_inputs",
  ],
  [
    "a short row of the older format",
    F,
    {
      loss: { type: "LOSS_TYPE_PPO" },
      samples: [typed(row, { ppo_inputs: { logprobs: { data: [1] }, advantages: { data: row.weights } } })],
    },
    422,
    "samples[0].loss_inputs.ppo_inputs.logprobs",
  ],
  ["no gradients", C, { samples: [good] }, 422, "gradients"],
  ["too few gradients", C, custom([]), 422, "gradients"],
  ["too many gradients", C, custom([{ data: row.weights }, { data: row.weights }]), 422, "gradients"],
  ["a short gradient", C, custom([{ data: [1] }]), 422, "gradients[0].data"],
  ["a gradient without data", C, custom([{}]), 422, "gradients[0].data"],
  ["a bare gradient", C, custom([row.weights]), 422, "gradients[0]"],
  ["a null in a gradient", C, custom([{ data: row.weights.map(() => null) }]), 422, "gradients[0].data[0]"],
  ["a gradient in words", C, custom([{ data: row.weights.map(String) }]), 422, "gradients[0].data[0]"],
  [
    "an infinite gradient",
    C,
    JSON.stringify(custom([{ data: row.weights }])).replace(
      'gradients":[{"data":[0',
      'gradients":[{"data":[1e400',
    ),
    422,
    "gradients[0].data[0]",
  ],
  [
    "a gradient beyond float32",
    C,
    custom([{ data: row.weights.map(() => 3.5e38) }]),
    422,
    "gradients[0].data[0]",
  ],
  [
    "a gradient beyond bfloat16",
    C,
    custom([{ data: row.weights.map(() => 3.4e38), dtype: "D_TYPE_BFLOAT16" }]),
    422,
    "gradients[0].data[0]",
  ],
  [
    "a gradient of the other dtype names",
    C,
    custom([{ data: row.weights, dtype: "float32" }]),
    422,
    "gradients[0].dtype",
  ],
  [
    "fractions called integers",
    C,
    custom([{ data: row.weights.map(() => 0.5), dtype: "D_TYPE_INT64" }]),
    422,
    "gradients[0].data[0]",
  ],
  ["Muon", O, { muon_params: { momentum: 0.9 } }, 422, "muon_params"],
  ["a negative learning rate", O, { adam_params: { learning_rate: -1 } }, 422, "adam_params.learning_rate"],
  ["beta2 of 1", O, { adam_params: { beta2: 1 } }, 422, "adam_params.beta2"],
  ["a learning rate in words", O, { adam_params: { learning_rate: "1" } }, 422, "adam_params.learning_rate"],
  ["a negative clip", O, { adam_params: { grad_clip_norm: -1 } }, 422, "adam_params.grad_clip_norm"],
  ["no kind of sync", "weights-sync", {}, 422, "weight_sync_type"],
  ["an unknown kind of sync", "weights-sync", { weight_sync_type: "X" }, 422, "weight_sync_type"],
  ["no prompts", S, {}, 422, "model_inputs"],
  ["an empty list of prompts", S, { model_inputs: [] }, 422, "model_inputs"],
  ["a prompt that fills the context", S, prompt("x".repeat(64)), 422, "model_inputs[0]"],
  ["no samples asked for", S, prompt("x", {}, { num_samples: 0 }), 422, "num_samples"],
  ["too many samples", S, prompt("x", {}, { num_samples: 5000 }), 422, "num_samples"],
  ["a negative temperature", S, prompt("x", { temperature: -0.1 }), 422, "sampling_params.temperature"],
  ["top_p of 0", S, prompt("x", { top_p: 0 }), 422, "sampling_params.top_p"],
  ["top_p above 1", S, prompt("x", { top_p: 1.1 }), 422, "sampling_params.top_p"],
  ["max_tokens of 0", S, prompt("x", { max_tokens: 0 }), 422, "sampling_params.max_tokens"],
  ["a stop that is a string", S, prompt("x", { stop: "\n" }), 422, "sampling_params.stop"],
  ["a stop token", S, prompt("x", { stop: [10] }), 422, "sampling_params.stop[0]"],
  ["an empty stop", S, prompt("x", { stop: [""] }), 422, "sampling_params.stop[0]"],
  ["a seed beyond 64 bits", S, prompt("x", { seed: "9223372036854775808" }), 422, "sampling_params.seed"],
  ["a fractional seed", S, prompt("x", { seed: 0.5 }), 422, "sampling_params.seed"],
  ["21 alternatives", S, prompt("x", {}, { topk_prompt_logprobs: 21 }), 422, "topk_prompt_logprobs"],
];

test.each(cases)("%s (%s)", async (_, kind, body, status, param) => {
  const answer = await api.submit(session, kind, body);
  const { message, ...error } = answer.body.error;
  expect(answer.status, message).toBe(status);
  expect(error).toEqual({ type: "invalid_request_error", param, code: expect.any(String) });
  // The message begins with the field, so that it can be read on its own.
  expect(message.startsWith(param ?? "body")).toBe(true);
});

const others: readonly (readonly [string, string, unknown, number, string | null])[] = [
  ["POST", "/v1/rl/model-resources", {}, 422, "base_model"],
  ["POST", "/v1/rl/model-resources", { base_model: "other" }, 422, "base_model"],
  [
    "POST",
    "/v1/rl/model-resources",
    { base_model: "local/tiny", compute_config: { gpu_type: "TPU" } },
    422,
    "compute_config.gpu_type",
  ],
  [
    "POST",
    "/v1/rl/model-resources",
    { base_model: "local/tiny", inactive_timeout: 5 },
    422,
    "inactive_timeout",
  ],
  [
    "POST",
    "/v1/rl/model-resources",
    { base_model: "local/tiny", optimizer_config: { muon: {} } },
    422,
    "optimizer_config.muon",
  ],
  [
    "POST",
    "/v1/rl/model-resources",
    { base_model: "local/tiny", base_weights_ref: "together://x" },
    422,
    "base_weights_ref",
  ],
  ["POST", "/v1/rl/training-sessions", {}, 422, "model_resources_id"],
  ["POST", "/v1/rl/training-sessions", { model_resources_id: "nope" }, 404, "model_resources_id"],
  ["GET", "/v1/rl/model-resources/nope", undefined, 404, null],
  ["GET", "/v1/rl/training-sessions/nope", undefined, 404, null],
  ["POST", "/v1/rl/training-sessions/nope/stop", undefined, 404, null],
  ["GET", "/v1/rl/training-sessions/nope/operations/sample/nope", undefined, 404, null],
  ["GET", "/v1/rl/nowhere", undefined, 404, null],
  ["DELETE", "/v1/rl/model-resources", undefined, 404, null],
  ["POST", `/v1/rl/model-resources/${"x".repeat(201)}/stop`, undefined, 414, null],
  ["GET", "/v1/rl/%ff", undefined, 400, null],
];

test.each(others)("%s %s %j", async (method, path, body, status, param) => {
  const answer = await api.call(method, path, body);
  expect(answer.status, JSON.stringify(answer.body)).toBe(status);
  expect(answer.body.error).toMatchObject({ message: expect.any(String), type: expect.any(String), param });
});

test("after all of that the session still trains and samples", async () => {
  await api.run(session, "forward-backward", { loss: CROSS_ENTROPY, samples: [good, typed(row)] });
  expect(await api.run(session, "optim-step")).toEqual({ step: "1" });
  expect((await api.run(session, "sample", prompt("M", { max_tokens: 3 }))).results).toHaveLength(1);
  const patch = await api.call("PATCH", `/v1/rl/training-sessions/${session}`, {
    display_name: "x".repeat(129),
  });
  expect(patch).toMatchObject({ status: 422, body: { error: { param: "display_name" } } });
});
