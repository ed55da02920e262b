// Training over HTTP: the custom pass against the built-in loss, both wire formats, sessions, sampling, checkpoints.
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readTensors } from "../../src/local/safetensors.ts";
import { relativeError } from "../helpers.ts";
import { Api, CROSS_ENTROPY, forward, open, prompt, type Row, rowOf, typed } from "./api.ts";

let folder: string;
let api: Api;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tokengrad-test-"));
  api = await Api.start({ dataFolder: folder, pollHoldMs: 1000 });
});
afterAll(async () => {
  await api.trainer.close();
  await rm(folder, { recursive: true });
});

const rows = [rowOf("The miller lives by the river."), rowOf("Ben rings a bell."), rowOf("Fog.")];
const samples = rows.map((row) => open(row));
const adam = { adam_params: { learning_rate: 1e-2, weight_decay: 0.1 } };
const minus = (row: Row) => row.weights.map((weight) => -weight);
const gradients = (sign: 1 | -1, dtype?: string) =>
  rows.map((row) => ({ data: minus(row).map((g) => g * sign), ...(dtype ? { dtype } : {}) }));

async function step(session: string): Promise<void> {
  await api.run(session, "forward-backward", { loss: CROSS_ENTROPY, samples });
  await api.run(session, "optim-step", adam);
}

/** Every parameter, read from the file of a checkpoint. */
async function weights(session: string): Promise<Float32Array> {
  const { checkpoint } = await api.run(session, "inference-checkpoint");
  const { tensors } = await readTensors(join(folder, `${checkpoint.id}.safetensors`));
  return new Float32Array(new Uint8Array(Buffer.concat(tensors.map(({ bytes }) => bytes))).buffer);
}

describe("the custom pass", () => {
  const weightsAfter = async (sign: 1 | -1) => {
    const session = await api.session();
    expect(
      await api.run(session, "custom-forward-backward", { samples, gradients: gradients(sign) }),
    ).toEqual({});
    expect(await api.run(session, "optim-step", adam)).toEqual({ step: "1" });
    return weights(session);
  };

  test("with the gradients of cross-entropy makes the step of the built-in loss", async () => {
    const session = await api.session();
    await step(session);
    const builtIn = await weights(session);
    expect(relativeError(await weightsAfter(1), builtIn)).toBeLessThan(1e-5);
    // The control: gradients of the wrong sign must not pass.
    expect(relativeError(await weightsAfter(-1), builtIn)).toBeGreaterThan(1e-3);
  });

  test("reads bfloat16 gradients as bfloat16", async () => {
    const scaled = (value: number, dtype: string) =>
      rows.map((row) => ({ data: row.weights.map((w) => w * value), dtype }));
    const weightsAfter = async (value: number, dtype: string) => {
      const session = await api.session();
      await api.run(session, "custom-forward-backward", { samples, gradients: scaled(value, dtype) });
      await api.run(session, "optim-step", adam);
      return weights(session);
    };
    // 0.1 is the shortest text of the bfloat16 0.10009765625.
    const exact = await weightsAfter(0.10009765625, "D_TYPE_FLOAT32");
    expect(await weightsAfter(0.1, "D_TYPE_BFLOAT16")).toEqual(exact);
    expect(await weightsAfter(0.1, "D_TYPE_FLOAT32")).not.toEqual(exact);
  });

  test("lowers the loss, step by step", async () => {
    const session = await api.session();
    const losses: number[] = [];
    for (let i = 0; i < 8; i++) {
      const { loss } = await api.run(session, "forward-backward", forward(samples));
      losses.push(loss);
      await api.run(session, "custom-forward-backward", { samples, gradients: gradients(1) });
      await api.run(session, "optim-step", adam);
    }
    expect(losses).toEqual([...losses].sort((a, b) => b - a));
    expect(losses.at(-1)).toBeLessThan(losses[0]! * 0.7);
  });
});

describe("the forward pass", () => {
  test("gives a log-probability where the weight is not 0, and 0 elsewhere; the loss is their sum", async () => {
    const session = await api.session();
    const {
      loss,
      metrics,
      loss_fn_outputs: outputs,
    } = await api.run(session, "forward-backward", forward(samples));
    let sum = 0;
    for (const [i, { tensors }] of outputs.entries()) {
      expect(tensors.logprobs.dtype).toBe("float32");
      expect(tensors.logprobs.data.map((l: number) => (l < 0 ? 1 : l))).toEqual(rows[i]!.weights);
      for (const logprob of tensors.logprobs.data) {
        expect(logprob).toBe(Math.fround(logprob));
        sum -= logprob;
      }
    }
    expect(outputs).toHaveLength(3);
    expect(loss).toBeCloseTo(sum, 4);
    expect(metrics["loss/tokens"]).toBe(rows.flatMap((row) => row.weights).filter((w) => w > 0).length);
    const failed = await api.submit(session, "optim-step", adam);
    expect(await api.finish(session, "optim-step", failed.body.id)).toMatchObject({
      status: "TRAINING_OPERATION_STATUS_FAILED",
      error: { code: "TRAINING_OPERATION_ERROR_CODE_INVALID_INPUT" },
    });
  });

  test("is the same in both wire formats, and with a mask", async () => {
    const session = await api.session();
    const reference = await api.run(session, "forward-backward", forward(samples));
    expect(await api.run(session, "forward-backward", forward(rows.map((row) => typed(row))))).toEqual(
      reference,
    );
    const policy = rows.map((row) => row.weights.map((_, t) => t / 10));
    const loss = { type: "LOSS_TYPE_GRPO", grpo_params: { beta: 0.5 } };
    const names = ["logprobs", "advantages", "reference_logprobs"];
    const tensors = (i: number) => names.map((name) => [name, policy[i]!.map((x) => -x - 1)] as const);
    const current = rows.map((row, i) => {
      const { loss_fn_inputs, ...sample } = open(row, Object.fromEntries(tensors(i)));
      const { weights: mask, ...inputs } = loss_fn_inputs;
      return { ...sample, loss_fn_inputs: { ...inputs, mask } };
    });
    const older = rows.map((row, i) => {
      const members = tensors(i).map(([name, data]) => [name, { data, dtype: "D_TYPE_FLOAT32" }]);
      return typed(row, { grpo_inputs: Object.fromEntries(members) });
    });
    const both = [current, older].map((given) =>
      api.run(session, "forward-backward", { loss, samples: given, forward_only: true }),
    );
    const [first, second] = await Promise.all(both);
    expect(first).toEqual(second);
    expect(first.loss_fn_outputs).toEqual([]);
    expect(Object.keys(first.metrics)).toEqual(
      expect.arrayContaining(["loss/clip/high_fraction", "loss/kl_ref/mean", "loss/ratio/mean"]),
    );
  });

  test("reports a loss that is not finite, and the session goes on", async () => {
    const session = await api.session();
    const row = rows[1]!;
    const policy = { logprobs: row.weights.map(() => -1e5), advantages: row.weights.map(() => -1) };
    const body = { loss: { type: "LOSS_TYPE_PPO" }, samples: [open(row, policy)] };
    const { body: submitted } = await api.submit(session, "forward-backward", body);
    expect(await api.finish(session, "forward-backward", submitted.id)).toMatchObject({
      status: "TRAINING_OPERATION_STATUS_FAILED",
      error: {
        code: "TRAINING_OPERATION_ERROR_CODE_NON_FINITE_LOSS",
        message: expect.stringMatching(/^sample 0, position 2/),
      },
    });
    await step(session);
  });
});

test("sessions are independent, and weights-sync alone moves the sampler", async () => {
  const [first, second] = [await api.session(), await api.session()];
  const sample = async (session: string) =>
    (await api.run(session, "sample", prompt("The ", { temperature: 0, max_tokens: 6 }))).results[0];
  const initial = await sample(first);
  expect(initial.policy_segments).toEqual([{ version: 0, start_token: 0 }]);
  expect(initial.sequences[0]).toMatchObject({
    stop_reason: "STOP_REASON_LENGTH",
    prompt_cache_hit_tokens: 0,
  });
  expect(initial.sequences[0].tokens.every((token: unknown) => typeof token === "string")).toBe(true);
  for (let i = 0; i < 10; i++) await step(first);
  expect(await sample(first)).toEqual(initial);
  const sync = { weight_sync_type: "WEIGHT_SYNC_TYPE_SYNCHRONOUS" };
  expect(await api.run(first, "weights-sync", sync)).toEqual({ weights_version: "10" });
  const synced = await sample(first);
  expect(synced.policy_segments).toEqual([{ version: 10, start_token: 0 }]);
  expect(synced.sequences).not.toEqual(initial.sequences);
  expect(await sample(second)).toEqual(initial);
  expect(await api.ok("GET", `/v1/rl/training-sessions/${first}`)).toMatchObject({
    step: "10",
    policy_state: { trainer_step: "10", applied_weights_version: "10", pending_publish: false },
  });
});

test("a sample request's every option reaches the sampler", async () => {
  const session = await api.session();
  const params = {
    max_tokens: 9,
    temperature: 1.2,
    top_p: 0.95,
    top_k: 50,
    seed: "12345678901234",
    stop: ["\n"],
  };
  const more = { num_samples: 3, prompt_logprobs: true, topk_prompt_logprobs: 2 };
  const body = prompt("Q: Who?", params, more);
  const [{ sequences, prompt_logprobs: scores, topk_prompt_logprobs: top }] = (
    await api.run(session, "sample", body)
  ).results;
  expect(sequences).toHaveLength(3);
  expect(scores).toHaveLength(7);
  expect(top[0]).toEqual({ token_ids: [], logprobs: [] });
  expect(top.slice(1).every((entry: { token_ids: number[] }) => entry.token_ids.length === 2)).toBe(true);
  expect((await api.run(session, "sample", body)).results[0].sequences).toEqual(sequences);
});

describe("checkpoints", () => {
  const resume = (id: string, options: object = {}) =>
    api.session({ resume_from_checkpoint_id: id, ...options });

  test("a session resumed from one goes on bit by bit, also after a restart", async () => {
    const original = await api.session();
    for (let i = 0; i < 3; i++) await step(original);
    const { checkpoint } = await api.run(original, "training-checkpoint");
    expect(checkpoint).toMatchObject({ step: "3", created_at: expect.stringMatching(/Z$/) });
    for (let i = 0; i < 3; i++) await step(original);
    const expected = await weights(original);

    await api.trainer.close();
    api = await Api.start({ dataFolder: folder, pollHoldMs: 1000 });
    const resumed = await resume(checkpoint.id);
    const session = await api.ok("GET", `/v1/rl/training-sessions/${resumed}`);
    expect(session).toMatchObject({
      step: "3",
      status: "TRAINING_SESSION_STATUS_RUNNING",
      resume_from_checkpoint_id: checkpoint.id,
      policy_state: { applied_weights_version: "3" },
    });
    for (let i = 0; i < 3; i++) await step(resumed);
    expect(await weights(resumed)).toEqual(expected);

    const fresh = await resume(checkpoint.id, { load_optimizer: false });
    expect((await api.ok("GET", `/v1/rl/training-sessions/${fresh}`)).step).toBe("0");
    for (let i = 0; i < 3; i++) await step(fresh);
    expect(await weights(fresh)).not.toEqual(expected);
  });

  test("an inference checkpoint holds the weights, and no optimizer to load", async () => {
    const original = await api.session();
    await step(original);
    const { checkpoint } = await api.run(original, "inference-checkpoint");
    const saved = (await api.ok("GET", `/v1/rl/training-sessions/${original}`)).inference_checkpoints;
    expect(saved).toEqual([checkpoint]);
    const resumed = await resume(checkpoint.id);
    expect(await weights(resumed)).toEqual(await weights(original));
    await expect(resume(checkpoint.id, { load_optimizer: true })).rejects.toThrow(/422.*load_optimizer/);
  });

  test("no half-written file is left, and a broken one is a clear error", async () => {
    const session = await api.session();
    const { checkpoint } = await api.run(session, "training-checkpoint");
    const path = join(folder, `${checkpoint.id}.safetensors`);
    expect((await readdir(folder)).filter((name) => name.endsWith(".tmp"))).toEqual([]);
    const whole = await readFile(path);
    const header = Number(whole.readBigUInt64LE());
    const text = whole.toString("utf8", 8, 8 + header);
    const rewritten = (from: string | RegExp, to: string) => {
      const changed = Buffer.from(text.replace(from, to).padEnd(header));
      expect(changed).toHaveLength(header);
      return Buffer.concat([whole.subarray(0, 8), changed, whole.subarray(8 + header)]);
    };
    const broken: [Buffer, RegExp][] = [
      [Buffer.alloc(0), /header/],
      [Buffer.from("not a checkpoint"), /header/],
      [whole.subarray(0, 200), /header/],
      [whole.subarray(0, -4), /bytes of tensors/],
      [Buffer.concat([whole, Buffer.alloc(4)]), /bytes of tensors/],
      [rewritten("{", "["), /JSON/],
      [rewritten(/"F32"/, '"F16"'), /dtype/],
      [rewritten("[257,32]", "[32,257]"), /a tensor embedding of F32 \[257,32\]/],
      [rewritten("tokengrad-checkpoint-1", "x"), /metadata/],
      [rewritten('\\"layers\\":2', '\\"layers\\":3'), /sizes/],
      [rewritten('"step":"0"', '"step":"a"'), /metadata/],
      [Buffer.concat([whole.subarray(0, -4), Buffer.from([0, 0, 0xc0, 0x7f])]), /finite/],
    ];
    for (const [bytes, message] of broken) {
      await writeFile(path, bytes);
      await expect(resume(checkpoint.id), String(message)).rejects.toThrow(
        new RegExp(`"status":422.*checkpoint.*${message.source}`),
      );
    }
    await writeFile(path, whole);
    await resume(checkpoint.id);
    await expect(resume("11111111-1111-1111-1111-111111111111")).rejects.toThrow(/404/);
    await expect(resume("../../etc/passwd")).rejects.toThrow(/404/);
  });
});
