// Submitting operations over real sockets: keys, bodies, and what refusals become.

import { expect, test } from "vitest";
import { DONE, PENDING, type Reply, rejection, scriptedSession, status } from "./server.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

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

test.each([
  [400, "BadRequestError", "ERR_BAD_REQUEST"],
  [401, "AuthenticationError", "ERR_AUTHENTICATION"],
  [402, "ApiError", "ERR_API"],
  [403, "PermissionDeniedError", "ERR_PERMISSION_DENIED"],
  [404, "NotFoundError", "ERR_NOT_FOUND"],
  [409, "ConflictError", "ERR_CONFLICT"],
  [410, "GoneError", "ERR_GONE"],
  [422, "UnprocessableEntityError", "ERR_UNPROCESSABLE_ENTITY"],
  [429, "RateLimitError", "ERR_RATE_LIMIT"],
  [500, "ServerError", "ERR_SERVER"],
  [302, "ApiError", "ERR_API"],
])("status %d is a %s", async (code, name, stable) => {
  const body = { error: { message: "no luck", type: "some_type", param: "samples", code: "some_code" } };
  const { session, server } = await scriptedSession([status(code, body, { "x-request-id": "req-9" })]);
  const error = await rejection(session.weightsSync());
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
  const url = `${server.url}/v1/rl/training-sessions/s-1/operations/weights-sync`;
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
  expect((await rejection(session.weightsSync())).message).toContain(message);
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
  const error = await rejection(session.weightsSync());
  expect(error.code).toBe("ERR_RESPONSE");
  expect(error.message).toMatch(message);
});

test("connections are kept and bounded, also by failed answers", async () => {
  const { session, server } = await scriptedSession(Array(200).fill(status(503)), { maxConnections: 4 });
  await Promise.all(Array.from({ length: 200 }, () => rejection(session.weightsSync())));
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
  expect((await rejection(session.weightsSync())).code).toBe("ERR_SERVER");
  expect((await session.optimStep()).step).toBe(1);
  await expect.poll(() => closed).toBe(true);
});
