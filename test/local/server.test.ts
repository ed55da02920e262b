// The API around the training: keys, lifecycle, order, idempotency, lists.
import { request } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Api, CROSS_ENTROPY, forward, MODEL, open, prompt, rowOf } from "./api.ts";

let api: Api;
beforeAll(async () => {
  api = await Api.start({ pollHoldMs: 1000 });
});
afterAll(() => api.trainer.close());

const samples = [open(rowOf("The lamp burns all night."))];
const step = { adam_params: { learning_rate: 1e-3 } };

test("only the right key opens the door", async () => {
  for (const authorization of [
    "",
    "Bearer",
    "Bearer wrong",
    `bearer ${api.trainer.apiKey}`,
    api.trainer.apiKey,
  ]) {
    for (const path of ["/v1/rl/supported-models", "/nowhere"]) {
      const { status, body } = await api.call("GET", path, undefined, { authorization });
      expect(status).toBe(401);
      expect(body.error).toEqual({
        message: expect.stringContaining("Authorization"),
        type: "authentication_error",
        param: null,
        code: "unauthorized",
      });
    }
  }
});

test("paths work with and without /v1", async () => {
  const models = await api.ok("GET", "/rl/supported-models");
  expect(await api.ok("GET", "/v1/rl/supported-models")).toEqual(models);
  expect(models.data[0]).toMatchObject({
    base_model: "local/tiny",
    compute_configs: [{ generator_config: { context_length: MODEL.context } }],
  });
  expect((await api.call("GET", "/v1/v1/rl/supported-models")).status).toBe(404);
});

test("resources are READY and sessions RUNNING at once; what was asked for is given back", async () => {
  const resources = await api.ok("POST", "/v1/rl/model-resources", {
    base_model: "local/tiny",
    compute_config: { num_generator_replicas: 0 },
    lora_enabled: true,
    inactive_timeout: 600,
  });
  expect(resources).toMatchObject({
    status: "MODEL_RESOURCES_STATUS_READY",
    compute_config: { num_generator_replicas: 0 },
    inactive_timeout: 600,
    lora_enabled: true,
    status_details: {},
  });
  const path = `/v1/rl/model-resources/${resources.id}`;
  expect(await api.ok("GET", path)).toEqual(resources);
  expect(await api.ok("POST", `${path}/extend-expiry`, { seconds: 60 })).toEqual(resources);
  const price = await api.ok("POST", "/v1/rl/model-resources/estimate-cost", { base_model: "local/tiny" });
  expect(price).toEqual({ currency: "USD", price_per_hour: 0 });

  const session = await api.ok("POST", "/v1/rl/training-sessions", {
    model_resources_id: resources.id,
    display_name: "first",
    lora_config: { rank: 8, alpha: 16, seed: "9007199254740993" },
    metadata: { wandb: { project: "p", group: "g" } },
  });
  expect(session).toMatchObject({
    status: "TRAINING_SESSION_STATUS_RUNNING",
    base_model: "local/tiny",
    model_resources_id: resources.id,
    step: "0",
    display_name: "first",
    lora_config: { rank: 8, alpha: 16, seed: "9007199254740993", train_unembed: true },
    training_checkpoints: [],
    inference_checkpoints: [],
    policy_state: {
      trainer_step: "0",
      applied_weights_version: "0",
      target_weights_version: "0",
      pending_publish: false,
    },
  });
  const own = `/v1/rl/training-sessions/${session.id}`;
  const renamed = await api.ok("PATCH", own, {
    display_name: "",
    metadata: { wandb: { group: "", run_id: "r" } },
  });
  expect(renamed.display_name).toBeUndefined();
  expect(renamed.metadata).toEqual({ wandb: { project: "p", run_id: "r" } });

  const refused = await api.submit(session.id, "sample", prompt("Hi"));
  expect(refused).toMatchObject({
    status: 422,
    body: { error: { message: expect.stringContaining("no generator") } },
  });
  expect(await api.call("POST", `${path}/stop`)).toMatchObject({
    status: 409,
    body: { error: { code: "sessions_active" } },
  });
  expect(await api.ok("POST", `${path}/stop?force=true`)).toMatchObject({
    status: "MODEL_RESOURCES_STATUS_STOPPED",
  });
  expect(await api.ok("GET", own)).toMatchObject({ status: "TRAINING_SESSION_STATUS_STOPPED" });
  const late = await api.call("POST", "/v1/rl/training-sessions", { model_resources_id: resources.id });
  expect(late).toMatchObject({ status: 409, body: { error: { param: "model_resources_id" } } });
});

describe("operations", () => {
  test("queue up and run in the order in which they were sent", async () => {
    const session = await api.session();
    const kinds = [
      "forward-backward",
      "optim-step",
      "weights-sync",
      "sample",
      "training-checkpoint",
    ] as const;
    const bodies = {
      "forward-backward": { loss: CROSS_ENTROPY, samples },
      "optim-step": step,
      "weights-sync": { weight_sync_type: "WEIGHT_SYNC_TYPE_PIPELINE" },
      sample: prompt("Hi", { max_tokens: 4 }),
      "training-checkpoint": undefined,
    };
    const ids: string[] = [];
    for (let round = 0; round < 3; round++) {
      for (const kind of kinds) {
        const { status, body } = await api.submit(session, kind, bodies[kind]);
        expect(status).toBe(200);
        expect(body).toEqual({ id: body.id, status: "TRAINING_OPERATION_STATUS_PENDING" });
        ids.push(body.id);
      }
    }
    for (const [i, id] of ids.entries()) {
      const kind = kinds[i % kinds.length]!;
      const round = Math.floor(i / kinds.length) + 1;
      const operation = await api.finish(session, kind, id);
      expect(operation.status).toBe("TRAINING_OPERATION_STATUS_COMPLETED");
      if (kind === "optim-step") expect(operation.output).toEqual({ step: String(round) });
      if (kind === "weights-sync") expect(operation.output).toEqual({ weights_version: String(round) });
      if (kind === "sample") expect(operation.output.results[0].policy_segments[0].version).toBe(round);
      if (kind === "training-checkpoint") expect(operation.output.checkpoint.step).toBe(String(round));
    }
    const other = await api.call("GET", `/v1/rl/training-sessions/${session}/operations/sample/${ids[0]}`);
    expect(other.status).toBe(404);
  });

  test("a repeat with the same key is the same operation, done once", async () => {
    const session = await api.session();
    const body = { loss: CROSS_ENTROPY, samples };
    const [first, ...again] = await Promise.all(
      Array.from({ length: 5 }, () => api.submit(session, "forward-backward", body, "key-1")),
    );
    for (const { body: repeat } of again) expect(repeat.id).toBe(first!.body.id);
    const done = await api.finish(session, "forward-backward", first!.body.id);
    expect((await api.submit(session, "forward-backward", body, "key-1")).body).toEqual(done);

    // Once means once: the step is that of a session that sent it a single time.
    await api.run(session, "optim-step", {
      adam_params: { learning_rate: 1, beta1: 0, eps: 1, grad_clip_norm: 0 },
    });
    const clean = await api.session();
    await api.run(clean, "forward-backward", body);
    await api.run(clean, "optim-step", {
      adam_params: { learning_rate: 1, beta1: 0, eps: 1, grad_clip_norm: 0 },
    });
    const score = (id: string) => api.run(id, "forward-backward", forward(samples));
    expect(await score(session)).toEqual(await score(clean));
  });

  test("a key is bound to its request and to its session", async () => {
    const session = await api.session();
    const { body: first } = await api.submit(session, "forward-backward", forward(samples), "key-2");
    const conflicts = [
      await api.submit(session, "forward-backward", { ...forward(samples), forward_only: false }, "key-2"),
      await api.submit(session, "optim-step", step, "key-2"),
      await api.submit(session, "forward-backward", "{", "key-3"),
    ];
    expect(conflicts.map(({ status }) => status)).toEqual([409, 409, 400]);
    expect(conflicts[0]!.body.error).toMatchObject({ type: "conflict_error", code: "idempotency_conflict" });
    // A refused request does not use up its key.
    expect((await api.submit(session, "forward-backward", forward(samples), "key-3")).status).toBe(200);
    const other = await api.submit(await api.session(), "forward-backward", forward(samples), "key-2");
    expect(other.status).toBe(200);
    expect(other.body.id).not.toBe(first.id);
  });

  test("a key must be there", async () => {
    const path = `/v1/rl/training-sessions/${await api.session()}/operations/optim-step`;
    for (const headers of [{}, { "idempotency-key": "" }]) {
      expect(await api.call("POST", path, step, headers as Record<string, string>)).toMatchObject({
        status: 400,
        body: { error: { param: "Idempotency-Key" } },
      });
    }
  });

  test("a stopped session fails what has not begun, ends what runs, and takes nothing more", async () => {
    const session = await api.session();
    const long = prompt("Hi", { max_tokens: 60 }, { num_samples: 4000 });
    const running = (await api.submit(session, "sample", long)).body.id;
    const waiting = (await api.submit(session, "forward-backward", forward(samples))).body.id;
    const stopping = await api.ok("POST", `/v1/rl/training-sessions/${session}/stop`);
    expect(stopping.status).toMatch(/STOPPING|STOPPED/);
    const late = await api.submit(session, "optim-step", step);
    const inactive = {
      status: "TRAINING_OPERATION_STATUS_FAILED",
      error: { code: "TRAINING_OPERATION_ERROR_CODE_SESSION_NOT_ACTIVE" },
    };
    expect(late).toMatchObject({ status: 200, body: inactive });
    expect(await api.finish(session, "sample", running)).toMatchObject(inactive);
    expect(await api.finish(session, "forward-backward", waiting)).toMatchObject(inactive);
    await expect
      .poll(async () => (await api.ok("GET", `/v1/rl/training-sessions/${session}`)).status)
      .toBe("TRAINING_SESSION_STATUS_STOPPED");
    expect((await api.ok("POST", `/v1/rl/training-sessions/${session}/stop`)).status).toMatch(/STOPPED/);
  });

  test("a poll is answered when the operation ends, not a period later", async () => {
    const session = await api.session();
    const { body } = await api.submit(
      session,
      "sample",
      prompt("Hi", { max_tokens: 40 }, { num_samples: 50 }),
    );
    const path = `/v1/rl/training-sessions/${session}/operations/sample/${body.id}`;
    const first = await api.ok("GET", path);
    expect(first.status).toBe("TRAINING_OPERATION_STATUS_COMPLETED");
  });
});

describe("lists", () => {
  test("page through, newest first, with filters", async () => {
    const own = await Api.start();
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) ids.unshift(await own.session());
    await own.ok("POST", `/v1/rl/training-sessions/${ids[0]}/stop`);
    const list = "/v1/rl/training-sessions";
    const first = await own.ok("GET", `${list}?limit=2`);
    expect(first.meta).toEqual({ has_more: true, limit: 2, next_cursor: ids[1] });
    const seen = first.data.map(({ id }: { id: string }) => id);
    let cursor = first.meta.next_cursor;
    while (cursor !== "") {
      const { data, meta } = await own.ok("GET", `${list}?limit=2&after=${cursor}&created_by=me`);
      seen.push(...data.map(({ id }: { id: string }) => id));
      cursor = meta.next_cursor;
    }
    expect(seen).toEqual(ids);
    const count = async (query: string) => (await own.ok("GET", `${list}?${query}`)).data.length;
    const [running, stopped] = ["TRAINING_SESSION_STATUS_RUNNING", "TRAINING_SESSION_STATUS_STOPPED"];
    expect(await count(`status=${running}`)).toBe(4);
    expect(await count(`status=${stopped},${running}`)).toBe(5);
    expect(await count(`status=${stopped}&status=${running}`)).toBe(5);
    expect(await count("created_by=somebody")).toBe(0);
    const { model_resources_id: resources } = await own.ok("GET", `${list}/${ids[2]}`);
    expect(await count(`model_resources_id=${resources}`)).toBe(1);
    expect((await own.ok("GET", "/v1/rl/model-resources")).data).toHaveLength(5);
    for (const query of ["limit=0", "limit=101", "limit=x", "after=nobody"]) {
      expect((await own.call("GET", `${list}?${query}`)).status, query).toBe(422);
    }
    await own.trainer.close();
  });
});

test("closing twice is one close, and nothing listens afterwards", async () => {
  const own = await Api.start();
  const held = own.submit(
    await own.session(),
    "sample",
    prompt("Hi", { max_tokens: 60 }, { num_samples: 4000 }),
  );
  await held;
  await Promise.all([own.trainer.close(), own.trainer.close()]);
  await expect(own.call("GET", "/v1/rl/supported-models")).rejects.toThrow();
});

test("it listens on loopback only, and refuses bad options by name", async () => {
  expect(new URL(api.trainer.url).hostname).toBe("127.0.0.1");
  const bad: [object, RegExp][] = [
    [{ port: 70_000 }, /port/],
    [{ model: { layers: 0 } }, /model\.layers/],
    [{ model: { width: 30, heads: 4 } }, /width/],
    [{ apiKey: "with space" }, /apiKey/],
    [{ threads: 0.5 }, /threads/],
    [{ faults: [] }, /faults: expected a function/],
    [{ resultPayloadBytes: -1 }, /resultPayloadBytes/],
    [{ prot: 0 }, /options\.prot: .*; did you mean port\?/],
    [{ model: { layer: 1 } }, /model\.layer: .*; did you mean layers\?/],
    [{ port: Number(new URL(api.trainer.url).port) }, /EADDRINUSE/],
  ];
  for (const [options, message] of bad) await expect(Api.start(options)).rejects.toThrow(message);
});

test("an answer is not held up by a body that never ends", async () => {
  const url = new URL(api.trainer.url);
  const half = request({
    port: url.port,
    method: "POST",
    path: "/v1/rl/model-resources",
    headers: { authorization: `Bearer ${api.trainer.apiKey}`, "content-length": 1000 },
  });
  half.on("error", () => undefined);
  half.write("{");
  expect((await api.call("GET", "/v1/rl/supported-models")).status).toBe(200);
  half.destroy();
});
