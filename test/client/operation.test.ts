// Operations over real sockets: submitted once, looked at until done, stopped at any moment, and what goes wrong.

import { describe, expect, test } from "vitest";
import {
  answerWith,
  completed,
  failed,
  hang,
  PENDING,
  type Reply,
  rejection,
  reset,
  SAMPLES,
  scriptedSession,
  status,
} from "./server.ts";

const DONE = completed({ step: 1 });
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Writes the head and part of a body, then cuts the connection. */
const cutOff: Reply = (response) => {
  response.writeHead(200, { "content-length": "1000" });
  response.write('{"id":"op-1",');
  setTimeout(() => response.socket?.destroy(), 5);
};

describe("submitting", () => {
  test("a terminal answer needs no poll", async () => {
    const { session, requests } = await scriptedSession([DONE]);
    const { step, operation } = await session.optimStep({ adam: { learningRate: 1e-4, gradClipNorm: 0 } });
    expect(step).toBe(1);
    expect(requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
      "POST /v1/rl/training-sessions/s-1/operations/optim-step",
    ]);
    expect(JSON.parse(requests[0]!.body)).toEqual({
      adam_params: { learning_rate: 1e-4, grad_clip_norm: 0 },
    });
    expect(operation).toEqual({
      id: "op-1",
      kind: "optim-step",
      idempotencyKey: requests[0]!.headers["idempotency-key"],
    });
    expect(operation.idempotencyKey).toMatch(UUID);
  });

  test("each call has a key of its own, polls carry none, and a given key is kept", async () => {
    const { session, requests } = await scriptedSession([PENDING, DONE, DONE, DONE]);
    await session.optimStep();
    await session.optimStep();
    const { operation } = await session.optimStep({}, { idempotencyKey: "mine" });
    const keys = requests.map(({ headers }) => headers["idempotency-key"]);
    expect(keys[0]).toMatch(UUID);
    expect(keys[1]).toBeUndefined();
    expect(keys[2]).toMatch(UUID);
    expect(keys[2]).not.toBe(keys[0]);
    expect(keys[3]).toBe("mine");
    expect(operation.idempotencyKey).toBe("mine");
  });

  test("a key that no header can carry is refused", async () => {
    const { session, requests } = await scriptedSession([DONE]);
    for (const idempotencyKey of ["a\nb", ""]) {
      expect((await rejection(session.optimStep({}, { idempotencyKey }))).code).toBe("ERR_INPUT");
    }
    expect(requests).toEqual([]);
  });

  test("a failed submission is not repeated", async () => {
    const { session, requests } = await scriptedSession([reset, cutOff, status(503)]);
    for (const code of ["ERR_CONNECTION", "ERR_CONNECTION", "ERR_SERVER"]) {
      expect((await rejection(session.optimStep())).code).toBe(code);
    }
    expect(requests.length).toBe(3);
  });

  test.each([
    [400, "BadRequestError", "ERR_BAD_REQUEST"],
    [401, "AuthenticationError", "ERR_AUTHENTICATION"],
    [402, "ApiError", "ERR_API"],
    [403, "PermissionDeniedError", "ERR_PERMISSION_DENIED"],
    [404, "NotFoundError", "ERR_NOT_FOUND"],
    [409, "ConflictError", "ERR_CONFLICT"],
    [422, "UnprocessableEntityError", "ERR_UNPROCESSABLE_ENTITY"],
    [429, "RateLimitError", "ERR_RATE_LIMIT"],
    [500, "ServerError", "ERR_SERVER"],
    [302, "ApiError", "ERR_API"],
  ])("status %d is a %s", async (code, name, stable) => {
    const body = { error: { message: "no luck", type: "some_type", param: "samples", code: "some_code" } };
    const { session, server } = await scriptedSession([status(code, body, { "x-request-id": "req-9" })]);
    const error = await rejection(session.optimStep());
    expect(error).toMatchObject({
      name,
      code: stable,
      status: code,
      serverCode: "some_code",
      type: "some_type",
      param: "samples",
      requestId: "req-9",
      method: "POST",
    });
    const url = `${server.url}/v1/rl/training-sessions/s-1/operations/optim-step`;
    expect(error.message).toBe(`${code}: no luck (POST ${url})`);
  });

  test.each([
    ["an HTML page", status(502, "<!doctype html><h1>Bad gateway</h1>"), "502: an HTML page ("],
    ["plain text", status(400, "upstream gave up"), "400: upstream gave up ("],
    ["nothing", status(500, ""), "500: no message ("],
    ["a bare message", status(400, { code: "x", message: "bare" }), "400: bare ("],
    ["an error that is a sentence", status(400, { error: "a sentence" }), "400: a sentence ("],
    ["a JSON null", status(500, "null"), "500: no message ("],
  ])("a failed answer that holds %s", async (_, reply, message) => {
    const { session } = await scriptedSession([reply]);
    expect((await rejection(session.optimStep())).message).toContain(message);
  });

  test.each([
    [
      "truncated JSON",
      status(200, '{"id":"op-1","status":"TRAINING_OPER'),
      /^answer: expected JSON, got 36 bytes/,
    ],
    ["an HTML page", status(200, "<html>hello</html>"), /^answer: expected JSON, got HTML/],
    ["nothing", status(200, ""), /^answer: expected JSON, got nothing/],
    ["an array", status(200, [] as object), /^answer: expected an object, got an array/],
    ["no id", status(200, { status: PENDING.status }), /^id: expected a value, got nothing/],
    [
      "an unknown status",
      status(200, { id: "op-1", status: "LOST" }),
      /^status: expected the status of an operation/,
    ],
  ])("a successful answer that holds %s", async (_, reply, message) => {
    const { session } = await scriptedSession([reply]);
    const error = await rejection(session.optimStep());
    expect(error.code).toBe("ERR_RESPONSE");
    expect(error.message).toMatch(message);
  });
});

describe("waiting", () => {
  test("failures on the way are not results: the operation is neither lost nor sent again", async () => {
    const hiccups = [
      status(502, "<html>"),
      reset,
      cutOff,
      status(429),
      status(408),
      status(409),
      status(503),
    ];
    const { session, requests } = await scriptedSession([PENDING, ...hiccups, PENDING, DONE]);
    expect((await session.optimStep()).step).toBe(1);
    expect(requests.filter(({ method }) => method === "POST").length).toBe(1);
    expect(requests.length).toBe(hiccups.length + 3);
    expect(requests[9]?.path).toBe("/v1/rl/training-sessions/s-1/operations/optim-step/op-1");
  });

  test.each([400, 401, 404, 410])("status %d while waiting is a failure", async (code) => {
    const { session, requests } = await scriptedSession([PENDING, status(code)]);
    expect(await rejection(session.optimStep())).toMatchObject({ status: code });
    expect(requests.length).toBe(2);
  });

  test("the first look comes at once, later ones after growing pauses up to the limit", async () => {
    const running = { ...PENDING, status: "TRAINING_OPERATION_STATUS_RUNNING" };
    const unspecified = { ...PENDING, status: "TRAINING_OPERATION_STATUS_UNSPECIFIED" };
    const times: number[] = [];
    const timed =
      (reply: Reply): Reply =>
      (response) => {
        times.push(performance.now());
        answerWith(reply, response);
      };
    const replies = [PENDING, ...Array(7).fill(running), unspecified, DONE].map(timed);
    const { session } = await scriptedSession(replies, { pollIntervalMs: 60 });
    await session.optimStep();
    const pauses = times.slice(1).map((time, index) => time - times[index]!);
    expect(pauses[1]).toBeGreaterThan(4);
    // The eighth pause lies between half of and the whole limit; the second began at 10 ms.
    expect(pauses[8]).toBeGreaterThanOrEqual(29);
    expect(pauses[0]! + pauses[1]!).toBeLessThan(pauses[7]! + pauses[8]!);
  });

  test.each([
    ["RESOURCE_EXHAUSTED", true],
    ["TIMEOUT", true],
    ["INTERNAL_ERROR", false],
    ["SESSION_NOT_ACTIVE", false],
    ["INVALID_INPUT", false],
    ["NON_FINITE_LOSS", false],
    ["UNSPECIFIED", false],
  ])("an operation failed with %s", async (reason, retryable) => {
    const error = { code: `TRAINING_OPERATION_ERROR_CODE_${reason}`, message: "so it is" };
    const { session, requests } = await scriptedSession([PENDING, failed(error)]);
    expect(await rejection(session.optimStep())).toMatchObject({
      name: "OperationFailedError",
      code: `ERR_OPERATION_${reason}`,
      reason,
      retryable,
      operationId: "op-1",
      kind: "optim-step",
      message: `optim-step: operation op-1 failed with ${reason}: so it is`,
    });
    expect(requests.length).toBe(2);
  });

  test("a failure of an unknown kind, or without any details", async () => {
    const { session } = await scriptedSession([
      failed({ code: "NEW_REASON" }),
      failed({}),
      { ...PENDING, ...failed({}) },
    ]);
    expect(await rejection(session.optimStep())).toMatchObject({
      reason: "UNSPECIFIED",
      message: "optim-step: operation op-1 failed with NEW_REASON",
    });
    expect(await rejection(session.optimStep())).toMatchObject({ code: "ERR_OPERATION_UNSPECIFIED" });
  });

  test("a completed operation without output is an error, except for a custom pass", async () => {
    const empty = { id: "op-1", status: "TRAINING_OPERATION_STATUS_COMPLETED" };
    const { session } = await scriptedSession(Array(7).fill(empty), { wireFormat: "loss_inputs" });
    const gradients = SAMPLES.map(({ targets }) => targets.map(() => 0));
    const { operation } = await session.customForwardBackward(SAMPLES, gradients);
    expect(operation.kind).toBe("custom-forward-backward");
    const calls = [
      () => session.forward(SAMPLES),
      () => session.forwardBackward(SAMPLES, { type: "cross_entropy" }),
      () => session.optimStep(),
      () => session.weightsSync(),
      () => session.sample([[1]]),
      () => session.trainingCheckpoint(),
    ];
    for (const call of calls) {
      expect((await rejection(call())).message).toMatch(/^output: expected a value, got nothing/);
    }
  });
});

describe("stopping", () => {
  const reason = new Error("enough");

  async function abortedAfter(replies: Reply[], ms: number) {
    const { session, requests } = await scriptedSession([...replies, DONE]);
    const controller = new AbortController();
    const call = rejection(session.optimStep({}, { signal: controller.signal }));
    await wait(ms);
    const began = performance.now();
    controller.abort(reason);
    const error = await call;
    expect(performance.now() - began).toBeLessThan(100);
    expect(error).toMatchObject({ name: "AbortError", code: "ERR_ABORTED", cause: reason });
    return { error, session, requests };
  }

  test("before: nothing is sent", async () => {
    const { session, requests } = await scriptedSession([DONE]);
    const error = await rejection(session.optimStep({}, { signal: AbortSignal.abort(reason) }));
    expect(error).toMatchObject({ name: "AbortError", cause: reason, message: "optim-step: aborted" });
    expect(requests).toEqual([]);
  });

  test("while the body is made: nothing is sent", async () => {
    const { session, requests } = await scriptedSession([completed({})]);
    const length = 2_000_000;
    const row = new Int32Array(length);
    const samples = [{ tokens: row, targets: row, weights: new Float32Array(length).fill(0.1) }];
    const controller = new AbortController();
    const call = rejection(
      session.customForwardBackward(samples, [new Float32Array(length).fill(0.3)], {
        signal: controller.signal,
      }),
    );
    await wait(20);
    const began = performance.now();
    controller.abort();
    const error = await call;
    expect(performance.now() - began).toBeLessThan(100);
    expect(error).toMatchObject({ name: "AbortError", message: "custom-forward-backward: aborted" });
    expect(requests).toEqual([]);
  });

  test("after one format was refused and before the other is sent: no key is named", async () => {
    const length = 500_000;
    const row = new Int32Array(length);
    const samples = [{ tokens: row, targets: row, weights: new Float32Array(length).fill(0.1) }];
    const controller = new AbortController();
    const refuse: Reply = (response) => {
      status(422)(response);
      setTimeout(() => controller.abort(), 15);
    };
    const { session, requests } = await scriptedSession([refuse, completed({})]);
    const call = session.customForwardBackward(samples, [new Float32Array(length).fill(0.3)], {
      signal: controller.signal,
    });
    expect((await rejection(call)).message).toBe("custom-forward-backward: aborted");
    expect(requests.length).toBe(1);
  });

  test("while the request is out: the error has its key, and the client goes on", async () => {
    const { error, session, requests } = await abortedAfter([hang], 30);
    const key = requests[0]?.headers["idempotency-key"];
    expect(error.idempotencyKey).toBe(key);
    expect(error.operationId).toBeUndefined();
    expect(error.message).toBe(
      `optim-step: aborted; the server may have accepted it under idempotency key ${key}`,
    );
    expect((await session.optimStep()).step).toBe(1);
  });

  test("while a poll is out: the error has the operation", async () => {
    const { error, session } = await abortedAfter([PENDING, hang], 30);
    expect(error.operationId).toBe("op-1");
    expect(error.message).toBe("optim-step: aborted; operation op-1 may still run on the server");
    expect((await session.optimStep()).step).toBe(1);
  });

  test("between two polls", async () => {
    const { session } = await scriptedSession(Array(50).fill(PENDING), { pollIntervalMs: 60_000 });
    const controller = new AbortController();
    const call = rejection(session.optimStep({}, { signal: controller.signal }));
    await wait(200);
    const began = performance.now();
    controller.abort();
    expect((await call).operationId).toBe("op-1");
    expect(performance.now() - began).toBeLessThan(100);
  });

  test("while an answer arrives", async () => {
    const dripping: Reply = (response) => {
      response.writeHead(200);
      response.write("{");
    };
    await abortedAfter([dripping], 30);
  });

  test("a signal shared by many calls is let go by each", async () => {
    const { session } = await scriptedSession(Array(20).fill(DONE));
    const { signal } = new AbortController();
    let listeners = 0;
    const { addEventListener, removeEventListener } = signal;
    signal.addEventListener = (...parameters: Parameters<typeof addEventListener>) => {
      listeners++;
      addEventListener.apply(signal, parameters);
    };
    signal.removeEventListener = (...parameters: Parameters<typeof removeEventListener>) => {
      listeners--;
      removeEventListener.apply(signal, parameters);
    };
    const warnings: Error[] = [];
    const warn = (warning: Error) => warnings.push(warning);
    process.on("warning", warn);
    await Promise.all(Array.from({ length: 20 }, () => session.optimStep({}, { signal })));
    await wait(10);
    process.off("warning", warn);
    expect(listeners).toBe(0);
    expect(warnings).toEqual([]);
  });

  test("when the time is up", async () => {
    const { session } = await scriptedSession([PENDING, status(503), hang]);
    const error = await rejection(session.optimStep({}, { timeoutMs: 200 }));
    expect(error).toMatchObject({ name: "TimeoutError", code: "ERR_TIMEOUT", operationId: "op-1" });
    expect(error.message).toBe(
      "optim-step: no result within 200 ms; operation op-1 may still run on the server",
    );
    // Not the request that the end itself cut off.
    expect(error.cause).toMatchObject({ code: "ERR_SERVER" });
  });

  test("the client's own limit holds where a call gives none, and no limit is one too", async () => {
    const { session } = await scriptedSession([hang, PENDING, DONE], { timeoutMs: 60 });
    expect((await rejection(session.optimStep())).message).toMatch(
      /^optim-step: no result within 60 ms; the server/,
    );
    expect((await session.optimStep({}, { timeoutMs: Number.POSITIVE_INFINITY })).step).toBe(1);
    expect((await rejection(session.optimStep({}, { timeoutMs: -1 }))).code).toBe("ERR_INPUT");
  });
});

test("connections are kept and bounded, also by failed answers", async () => {
  const { session, server } = await scriptedSession(Array(200).fill(status(503)), { maxConnections: 4 });
  await Promise.all(Array.from({ length: 200 }, () => rejection(session.optimStep())));
  expect(server.sockets()).toBeLessThanOrEqual(4);
});

test("a failed answer without end is cut", async () => {
  let closed = false;
  const endless: Reply = (response) => {
    response.writeHead(500);
    response.on("close", () => {
      closed = true;
    });
    const more = () => {
      while (!closed && response.write("x".repeat(65536)));
      if (!closed) response.once("drain", more);
    };
    more();
  };
  const { session } = await scriptedSession([endless, DONE]);
  expect((await rejection(session.optimStep())).code).toBe("ERR_SERVER");
  expect((await session.optimStep()).step).toBe(1);
  await expect.poll(() => closed).toBe(true);
});
