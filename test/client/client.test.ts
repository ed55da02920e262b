// The client itself: where it sends requests, what it sends with them, and what it keeps to itself.

import { inspect } from "node:util";
import { afterEach, describe, expect, test, vi } from "vitest";
import { Client } from "../../src/client/client.ts";
import {
  completed,
  KEY,
  rejection,
  reset,
  SAMPLES,
  SESSION,
  scriptedSession,
  serve,
  status,
  testClient,
} from "./server.ts";

const RESOURCE = {
  id: "r-1",
  base_model: "tiny",
  compute_config: { num_generator_replicas: 0, gpu_type: "B200-SXM" },
  created_at: "2026-01-01T00:00:00Z",
  updated_at: "2026-01-01T00:00:00Z",
  created_by: "me",
  inactive_timeout: "3600",
  lora_enabled: true,
  optimizer_config: { adam: {} },
  status: "MODEL_RESOURCES_STATUS_PENDING",
  status_details: { queue_position: 2 },
};

afterEach(() => {
  vi.unstubAllEnvs();
});

describe("base URL", () => {
  test.each(["", "/", "/v1", "/v1/", "//"])("with the ending %j", async (ending) => {
    const server = await serve(() => SESSION);
    await testClient(server, { baseURL: `${server.url}${ending}` }).sessions.get("s-1");
    expect(server.requests[0]?.path).toBe("/v1/rl/training-sessions/s-1");
  });

  test("with a path of its own", async () => {
    const server = await serve(() => SESSION);
    await testClient(server, { baseURL: `${server.url}/proxy/v1/` }).sessions.get("s-1");
    expect(server.requests[0]?.path).toBe("/proxy/v1/rl/training-sessions/s-1");
  });

  test("from the environment, else the service", () => {
    vi.stubEnv("TOGETHER_BASE_URL", "https://example.test/v1");
    expect(new Client({ apiKey: KEY }).baseURL).toBe("https://example.test/v1");
    vi.stubEnv("TOGETHER_BASE_URL", "");
    expect(new Client({ apiKey: KEY }).baseURL).toBe("https://api.together.ai/v1");
  });

  test.each(["api.together.ai", "ftp://host", "https://user:secret@host", ""])("refuses %j", (baseURL) => {
    expect(() => new Client({ apiKey: KEY, baseURL })).toThrow(/^baseURL: expected an http or https URL/);
  });
});

describe("key", () => {
  test("a missing one says how to set it", () => {
    vi.stubEnv("TOGETHER_API_KEY", "");
    expect(() => new Client()).toThrow(/TOGETHER_API_KEY.*apiKey/);
  });

  test("comes from the environment, without the line break of a file", async () => {
    vi.stubEnv("TOGETHER_API_KEY", `${KEY}\n`);
    const server = await serve(() => SESSION);
    const client = new Client({ baseURL: server.url });
    await client.sessions.get("s-1");
    await client.close();
    expect(server.requests[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
  });

  test("one that no header can carry is refused without being shown", () => {
    const error = (() => {
      try {
        return new Client({ apiKey: "sk-\u0000secret" });
      } catch (thrown) {
        return thrown;
      }
    })();
    expect(String(error)).toMatch(/apiKey/);
    expect(inspect(error, { depth: 9 })).not.toContain("secret");
  });

  test("appears neither in the client nor in errors, even when the server repeats it", async () => {
    const server = await serve((_, nth) =>
      nth === 0
        ? status(401, {
            error: { message: `invalid key ${KEY}`, type: "auth", code: "bad_key", param: null },
          })
        : reset,
    );
    const client = testClient(server);
    const session = client.sessions;
    const errors = [await rejection(session.get("s-1")), await rejection(session.get("s-1"))];
    for (const value of [client, session, client.modelResources, ...errors]) {
      expect(inspect(value, { depth: 12, showHidden: true })).not.toContain(KEY);
      expect(JSON.stringify(value)).not.toContain(KEY);
    }
    expect(errors[0]).toMatchObject({
      name: "AuthenticationError",
      code: "ERR_AUTHENTICATION",
      serverCode: "bad_key",
      type: "auth",
    });
    expect(errors[1]?.code).toBe("ERR_CONNECTION");
  });
});

test("sends its own headers and the caller's", async () => {
  const { session, requests } = await scriptedSession([completed({ step: 1 })], {
    headers: { "X-Team": "blue" },
  });
  await session.optimStep({ adam: { learningRate: 1e-4 } });
  expect(requests[0]?.headers).toMatchObject({
    authorization: `Bearer ${KEY}`,
    accept: "application/json",
    "content-type": "application/json",
    "user-agent": "tokengrad",
    "x-team": "blue",
  });
  expect(() => new Client({ apiKey: KEY, headers: { "x-bad": "a\nb" } })).toThrow(/headers\.x-bad/);
});

test("takes headers and connections from the environment too; storage and others see none of it", async () => {
  vi.stubEnv("TOGETHER_CUSTOM_HEADERS", "X-Team: red\nX-Trace:  a:b \n\n");
  vi.stubEnv("TOGETHER_RL_MAX_CONNECTIONS", "3");
  const server = await serve(() => SESSION);
  const client = testClient(server, { headers: { "x-team": "blue" } });
  await Promise.all(Array.from({ length: 20 }, () => client.sessions.get("s-1")));
  expect(server.requests[0]!.headers).toMatchObject({ "x-team": "blue", "x-trace": "a:b" });
  expect(server.sockets()).toBe(3);
  vi.stubEnv("TOGETHER_CUSTOM_HEADERS", "nonsense");
  expect(() => testClient(server)).toThrow(/^TOGETHER_CUSTOM_HEADERS: expected lines of `Name: value`/);
  vi.stubEnv("TOGETHER_CUSTOM_HEADERS", "");
  vi.stubEnv("TOGETHER_RL_MAX_CONNECTIONS", "many");
  expect(() => testClient(server)).toThrow(/^maxConnections: /);
});

test("options of a call that nobody knows are refused", async () => {
  const { session, client, requests } = await scriptedSession([]);
  const wrong = { timeout: 5 } as object;
  for (const [call, hint] of [
    [() => session.optimStep({}, wrong), "timeoutMs"],
    [() => session.forward(SAMPLES, { idempotencykey: "k" } as object), "idempotencyKey"],
    [
      () => session.forwardBackward(SAMPLES, { type: "cross_entropy" }, { returnOutput: true } as object),
      "returnOutputs",
    ],
    [() => session.info(wrong), "timeoutMs"],
    [() => client.sessions.stop("s-1", { waits: true } as object), "wait"],
    [() => client.modelResources.stop("r-1", { forced: true } as object), "force"],
    [() => client.modelResources.open({ baseModel: "m" }, { onprogress: () => {} } as object), "onProgress"],
    [() => client.checkpoints.download("c-1", { folder: "x", varient: "adapter" } as never), "variant"],
  ] as const) {
    expect((await rejection(call())).message).toMatch(new RegExp(`did you mean ${hint}\\?$`));
  }
  expect(requests).toEqual([]);
});

test("options out of range are refused", () => {
  const make = (options: object) => () => new Client({ apiKey: KEY, ...options });
  expect(make({ timeoutMs: 0 })).toThrow(/^timeoutMs: expected milliseconds above 0 or Infinity, got 0/);
  expect(make({ pollIntervalMs: 1.5 })).toThrow(/^pollIntervalMs: /);
  expect(make({ maxConnections: -1 })).toThrow(/^maxConnections: /);
  expect(make({ wireFormat: "grpc" })).toThrow(/^wireFormat: /);
  expect(make({ baseUrl: "http://127.0.0.1" })).toThrow(/^client\.baseUrl: .*; did you mean baseURL\?/);
  expect(make({ maxRetries: -1 })).toThrow(/^maxRetries: /);
  expect(make({ retryDelayMs: 0 })).toThrow(/^retryDelayMs: /);
  expect(make({ requestTimeoutMs: 0 })).toThrow(/^requestTimeoutMs: /);
  expect(make({ maxBytesInFlight: 0 })).toThrow(/^maxBytesInFlight: /);
  expect(make({ timeoutMs: Number.POSITIVE_INFINITY })).not.toThrow();
});

describe("model resources", () => {
  test("start, get and stop", async () => {
    const server = await serve(() => RESOURCE);
    const { modelResources } = testClient(server);
    const started = await modelResources.start({
      baseModel: "tiny",
      baseWeightsRef: "together://ml_1",
      computeConfig: { gpuType: "B200-SXM", numGeneratorReplicas: 0 },
      loraEnabled: true,
      optimizerConfig: { muon: { scalingStrategy: "match_adam" } },
      inactiveTimeoutSeconds: 600,
    });
    expect(started).toEqual({
      id: "r-1",
      baseModel: "tiny",
      baseWeightsRef: undefined,
      status: "PENDING",
      queuePosition: 2,
      gpuType: "B200-SXM",
      numGeneratorReplicas: 0,
      loraEnabled: true,
      inactiveTimeoutSeconds: 3600,
      createdAt: RESOURCE.created_at,
      updatedAt: RESOURCE.updated_at,
      expiresAt: undefined,
      createdBy: "me",
      error: undefined,
    });
    await modelResources.get("r/1");
    await modelResources.stop("r-1");
    await modelResources.stop("r-1", { force: true });
    expect(server.requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
      "POST /v1/rl/model-resources",
      "GET /v1/rl/model-resources/r%2F1",
      "POST /v1/rl/model-resources/r-1/stop",
      "POST /v1/rl/model-resources/r-1/stop?force=true",
    ]);
    expect(JSON.parse(server.requests[0]!.body)).toEqual({
      base_model: "tiny",
      base_weights_ref: "together://ml_1",
      compute_config: { gpu_type: "B200-SXM", num_generator_replicas: 0 },
      lora_enabled: true,
      optimizer_config: { muon: { scaling_strategy: "MUON_SCALING_STRATEGY_MATCH_ADAM" } },
      inactive_timeout: 600,
    });
    expect(server.requests.map(({ headers }) => headers["idempotency-key"])).toEqual(
      Array(4).fill(undefined),
    );
  });

  test("refuse options that they do not know, and missing ones", async () => {
    const server = await serve(() => RESOURCE);
    const { modelResources } = testClient(server);
    const misspelt = modelResources.start({ baseModel: "tiny", lora_enabled: true } as never);
    expect((await rejection(misspelt)).message).toMatch(
      /^modelResources\.start\.lora_enabled: expected one of .*; did you mean loraEnabled\?/,
    );
    const missing = modelResources.start({} as never);
    expect((await rejection(missing)).message).toBe("modelResources.start.baseModel: missing");
    expect(server.requests).toEqual([]);
  });

  test("an id that would leave its path is refused", async () => {
    const server = await serve(() => RESOURCE);
    const { modelResources } = testClient(server);
    for (const id of ["", ".", ".."]) {
      expect((await rejection(modelResources.get(id))).code).toBe("ERR_INPUT");
    }
    expect(server.requests).toEqual([]);
  });
});

describe("sessions", () => {
  test("start, info, attach and stop", async () => {
    const server = await serve(() => SESSION);
    const { sessions } = testClient(server);
    const session = await sessions.start({
      modelResourcesId: "r-1",
      displayName: "a name",
      loraConfig: { rank: 8, alpha: 16, dropout: 0, seed: 2n ** 60n, trainUnembed: false },
      metadata: { wandb: { project: "p" } },
      resumeFromCheckpointId: "c-1",
      loadOptimizer: false,
    });
    expect(session.id).toBe("s-1");
    expect(await session.info()).toEqual({
      id: "s-1",
      modelResourcesId: "r-1",
      baseModel: "tiny",
      status: "RUNNING",
      step: 5,
      displayName: undefined,
      createdAt: SESSION.created_at,
      updatedAt: SESSION.updated_at,
      createdBy: "me",
      trainingCheckpoints: [],
      inferenceCheckpoints: [],
      policyState: {
        appliedWeightsVersion: 3,
        targetWeightsVersion: 4,
        trainerStep: 5,
        pendingPublish: false,
      },
      metadata: {},
      resumeFromCheckpointId: undefined,
      error: undefined,
    });
    expect((await sessions.attach("s-1")).id).toBe("s-1");
    await session.stop();
    expect(server.requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
      "POST /v1/rl/training-sessions",
      "GET /v1/rl/training-sessions/s-1",
      "GET /v1/rl/training-sessions/s-1",
      "POST /v1/rl/training-sessions/s-1/stop",
    ]);
    expect(JSON.parse(server.requests[0]!.body)).toEqual({
      model_resources_id: "r-1",
      display_name: "a name",
      lora_config: { rank: 8, alpha: 16, dropout: 0, seed: "1152921504606846976", train_unembed: false },
      metadata: { wandb: { project: "p" } },
      resume_from_checkpoint_id: "c-1",
      load_optimizer: false,
    });
    expect(server.requests[3]).toMatchObject({ body: "" });
    expect(server.requests[3]!.headers["content-type"]).toBeUndefined();
  });

  test("a wrong field of an answer is named with its request", async () => {
    const server = await serve(() => ({ ...SESSION, step: "five" }));
    const error = await rejection(testClient(server).sessions.get("s-1"));
    expect(error.code).toBe("ERR_RESPONSE");
    expect(error.message).toBe(
      `step: expected an integer within 2^53 - 1 or a decimal string, got "five" (GET ${server.url}/v1/rl/training-sessions/s-1)`,
    );
  });
});

test("close ends calls under way, is final, and may be repeated", async () => {
  const { session, client } = await scriptedSession([() => {}]);
  const pending = rejection(session.optimStep());
  await new Promise((resolve) => setTimeout(resolve, 30));
  await client.close();
  await client[Symbol.asyncDispose]();
  expect((await pending).code).toBe("ERR_CLIENT_CLOSED");
  expect((await rejection(session.info())).code).toBe("ERR_CLIENT_CLOSED");
});
