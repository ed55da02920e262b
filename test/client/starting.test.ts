// Resources and sessions that are waited for, and stopped where anything goes wrong.

import { describe, expect, test } from "vitest";
import type { StartProgress } from "../../src/client/waiting.ts";
import { type Received, type Reply, rejection, reset, SESSION, serve, status, testClient } from "./server.ts";

const RESOURCE = {
  id: "r-1",
  base_model: "tiny",
  compute_config: { num_generator_replicas: 0 },
  created_at: "2026-01-01T00:00:00Z",
  updated_at: "2026-01-01T00:00:00Z",
  created_by: "me",
  inactive_timeout: 3600,
  lora_enabled: true,
  optimizer_config: { adam: {} },
  status_details: {},
};
const resource = (state: string, more = {}) => ({
  ...RESOURCE,
  status: `MODEL_RESOURCES_STATUS_${state}`,
  ...more,
});
const session = (state: string, more = {}) => ({
  ...SESSION,
  status: `TRAINING_SESSION_STATUS_${state}`,
  ...more,
});

/** Gives the replies to creations and looks in order; stops always work. */
async function starting(replies: readonly Reply[], stop: Reply = resource("STOPPING")) {
  const left = [...replies];
  const server = await serve((request: Received) => {
    if (!request.path.includes("/stop")) return left.shift() ?? status(500);
    return request.path.includes("training-sessions") ? session("STOPPED") : stop;
  });
  const calls = () => server.requests.map(({ method, path }) => `${method} ${path.replace("/v1/rl/", "")}`);
  return { client: testClient(server), calls, server };
}

describe("resources", () => {
  test("are waited for until READY, with progress, and stopped at the end of their scope", async () => {
    const { client, calls } = await starting([
      resource("PENDING", { status_details: { queue_position: 2 } }),
      resource("CREATING"),
      resource("READY", { expires_at: "2026-01-01T01:00:00Z" }),
    ]);
    const seen: StartProgress[] = [];
    {
      await using resources = await client.modelResources.open(
        { baseModel: "tiny" },
        { onProgress: (progress) => seen.push(progress) },
      );
      expect(resources.id).toBe("r-1");
      expect(resources.info.expiresAt).toBe("2026-01-01T01:00:00Z");
      expect(calls().length).toBe(3);
    }
    expect(calls()).toEqual([
      "POST model-resources",
      "GET model-resources/r-1",
      "GET model-resources/r-1",
      "POST model-resources/r-1/stop?force=true",
    ]);
    expect(seen.map(({ status, queuePosition }) => [status, queuePosition])).toEqual([
      ["PENDING", 2],
      ["CREATING", undefined],
      ["READY", undefined],
    ]);
    expect(String(seen[0])).toBe("model resources r-1: PENDING, place 2 in the queue, 0 s");
    expect(seen[2]!.elapsedMs).toBeGreaterThan(500);
  });

  test.each(["ERROR", "STOPPED", "STOPPING"])(
    "that become %s are an error, and are stopped",
    async (state) => {
      const error = {
        code: "MODEL_RESOURCES_ERROR_CODE_PROVISIONING_FAILED",
        message: "no GPUs",
        occurred_at: "t",
      };
      const { client, calls } = await starting([resource("PENDING"), resource(state, { error })]);
      const failure = await rejection(client.modelResources.open({ baseModel: "tiny" }));
      expect(failure).toMatchObject({
        name: "StartError",
        code: "ERR_START",
        id: "r-1",
        status: state,
        reason: { code: "PROVISIONING_FAILED", message: "no GPUs", occurredAt: "t" },
      });
      expect(failure.message).toBe(`model resources r-1: became ${state}: PROVISIONING_FAILED: no GPUs`);
      expect(calls().at(-1)).toBe("POST model-resources/r-1/stop?force=true");
    },
  );

  test.each<[string, Reply]>([
    ["a look fails for good", status(401)],
    ["an answer makes no sense", {}],
  ])("are stopped when %s", async (_, reply) => {
    const { client, calls } = await starting([resource("PENDING"), reply]);
    await rejection(client.modelResources.open({ baseModel: "tiny" }));
    expect(calls().at(-1)).toBe("POST model-resources/r-1/stop?force=true");
  });

  test("are stopped when the caller aborts, when the time is up, and when its callback throws", async () => {
    for (const end of ["abort", "time", "callback"]) {
      const { client, calls } = await starting(Array(20).fill(resource("CREATING")));
      const controller = new AbortController();
      const opening = client.modelResources.open(
        { baseModel: "tiny" },
        {
          signal: controller.signal,
          ...(end === "time" && { timeoutMs: 100 }),
          onProgress: () => {
            if (end === "abort") controller.abort();
            if (end === "callback") throw new Error("mine");
          },
        },
      );
      const error = await rejection(opening);
      expect(error.code ?? error.message).toBe(
        { abort: "ERR_ABORTED", time: "ERR_TIMEOUT", callback: "mine" }[end],
      );
      expect(calls().at(-1), end).toBe("POST model-resources/r-1/stop?force=true");
    }
  });

  test("that cannot be stopped either are named", async () => {
    const { client } = await starting([resource("PENDING"), resource("ERROR")], status(403));
    expect((await rejection(client.modelResources.open({ baseModel: "tiny" }))).message).toMatch(
      /became ERROR; model resources r-1 could not be stopped and may still run: 403: status 403/,
    );
  });

  test("whose creation fails leave nothing to stop", async () => {
    const { client, calls } = await starting([reset]);
    expect((await rejection(client.modelResources.open({ baseModel: "tiny" }))).code).toBe("ERR_CONNECTION");
    expect(calls()).toEqual(["POST model-resources"]);
  });

  test("are stopped once, and again only where that failed", async () => {
    const { client, calls } = await starting([resource("READY")]);
    const resources = await client.modelResources.open({ baseModel: "tiny" });
    const [first, second] = await Promise.all([resources.stop(), resources.stop()]);
    expect(first).toBe(second);
    expect(calls().length).toBe(2);
    const stuck = await starting([resource("READY")], status(403));
    const other = await stuck.client.modelResources.open({ baseModel: "tiny" });
    for (let nth = 0; nth < 2; nth++)
      expect((await rejection(other.stop())).code).toBe("ERR_PERMISSION_DENIED");
    expect(stuck.calls().length).toBe(3);
  });
});

describe("sessions", () => {
  test("are waited for until RUNNING on resources, and stopped before them", async () => {
    const { client, calls } = await starting([resource("READY"), session("CREATING"), session("RUNNING")]);
    {
      await using resources = await client.modelResources.open({ baseModel: "tiny" });
      await using opened = await resources.openSession({ displayName: "one" });
      expect(opened.id).toBe("s-1");
    }
    expect(calls()).toEqual([
      "POST model-resources",
      "POST training-sessions",
      "GET training-sessions/s-1",
      "POST training-sessions/s-1/stop",
      "POST model-resources/r-1/stop?force=true",
    ]);
  });

  test.each(["STOPPED", "STOPPING", "ERROR", "EXPIRED"])(
    "that become %s are an error, and are stopped",
    async (state) => {
      const { client, calls } = await starting([session("CREATING"), session(state)]);
      const failure = await rejection(client.sessions.open({ modelResourcesId: "r-1" }));
      expect(failure.message).toBe(`session s-1: became ${state}`);
      expect(calls().at(-1)).toBe("POST training-sessions/s-1/stop");
    },
  );

  test("are over at the end of their scope, and by stop where that is asked for", async () => {
    const answers = [session("STOPPING"), session("STOPPING"), session("STOPPED")];
    const server = await serve(({ method, path }) =>
      method === "GET" && !path.includes("/stop") && answers.length === 3
        ? session("RUNNING")
        : (answers.shift() ?? status(500)),
    );
    const client = testClient(server);
    {
      await using joined = await client.sessions.attach("s-1");
      expect(joined.id).toBe("s-1");
    }
    expect(answers).toEqual([]);
    expect(server.requests.map(({ method }) => method)).toEqual(["GET", "POST", "GET", "GET"]);
    const plain = await serve(() => session("STOPPING"));
    expect((await testClient(plain).sessions.stop("s-1")).status).toBe("STOPPING");
    expect(plain.requests.length).toBe(1);
  });

  test("are renamed, looked at and asked for one of their operations", async () => {
    const server = await serve(({ path }) =>
      path.includes("/operations/")
        ? {
            id: "op-9",
            status: "TRAINING_OPERATION_STATUS_FAILED",
            error: { code: "TRAINING_OPERATION_ERROR_CODE_TIMEOUT", message: "late" },
          }
        : session("RUNNING", { lora_config: { rank: 8, seed: "9007199254740993" } }),
    );
    const client = testClient(server);
    const joined = await client.sessions.attach("s-1");
    expect(
      (await joined.update({ displayName: "", metadata: { wandb: { run_id: "x" } } })).loraConfig,
    ).toEqual({
      rank: 8,
      seed: "9007199254740993",
    });
    expect(server.requests[1]).toMatchObject({ method: "PATCH", path: "/v1/rl/training-sessions/s-1" });
    expect(JSON.parse(server.requests[1]!.body)).toEqual({
      display_name: "",
      metadata: { wandb: { run_id: "x" } },
    });
    expect(await joined.getOperation("optim-step", "op-9")).toEqual({
      id: "op-9",
      kind: "optim-step",
      status: "FAILED",
      output: undefined,
      error: { code: "TIMEOUT", message: "late", occurredAt: undefined },
    });
  });
});

test("what a resource costs, and keeping one for longer", async () => {
  const server = await serve(({ path }) =>
    path.endsWith("estimate-cost") ? { currency: "USD", price_per_hour: 56.5 } : resource("READY"),
  );
  const { modelResources } = testClient(server);
  expect(await modelResources.estimateCost({ baseModel: "tiny" })).toEqual({
    currency: "USD",
    pricePerHour: 56.5,
  });
  expect((await modelResources.extendExpiry("r-1", 7200)).status).toBe("READY");
  expect(server.requests.map(({ path, body }) => [path, JSON.parse(body)])).toEqual([
    ["/v1/rl/model-resources/estimate-cost", { base_model: "tiny" }],
    ["/v1/rl/model-resources/r-1/extend-expiry", { seconds: 7200 }],
  ]);
  expect((await rejection(modelResources.extendExpiry("r-1", 0.5))).code).toBe("ERR_INPUT");
});

test("supported models", async () => {
  const limits = { max_batch_size: "64", max_seq_length: 4096 };
  const server = await serve(() => ({
    data: [
      {
        base_model: "tiny",
        default_gpu_type: "B200-SXM",
        compute_configs: [
          {
            gpu_type: "B200-SXM",
            generator_config: { context_length: 4096, sampling_defaults: { temperature: 1 } },
            trainer_config: { full: limits, lora: { ...limits, max_rank: 64 } },
          },
          { gpu_type: "B200-SXM" },
        ],
      },
    ],
  }));
  const trained = { maxBatchSize: 64, maxSeqLength: 4096 };
  expect(await testClient(server).supportedModels()).toEqual([
    {
      baseModel: "tiny",
      defaultGpuType: "B200-SXM",
      computeConfigs: [
        {
          gpuType: "B200-SXM",
          generator: { contextLength: 4096, samplingDefaults: { temperature: 1 } },
          trainer: { full: trained, lora: { ...trained, maxRank: 64 } },
        },
        { gpuType: "B200-SXM", generator: undefined, trainer: undefined },
      ],
    },
  ]);
});
