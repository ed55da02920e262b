// Failed requests that are sent again: which, how often, after how long, and with what.

import { describe, expect, test, vi } from "vitest";
import { pauseAfter, retryAfter } from "../../src/client/retry.ts";
import {
  completed,
  cutOff,
  DONE,
  gradientsFor,
  hang,
  PENDING,
  type Reply,
  rejection,
  reset,
  SAMPLES,
  SESSION,
  scriptedSession,
  serve,
  status,
  testClient,
} from "./server.ts";

const PUBLISHED = completed({ weights_version: 1 });
const KEPT = { wireFormat: "loss_inputs", maxRetries: 3 } as const;

describe("an operation", () => {
  test.each<[string, Reply]>([
    ["a reset connection", reset],
    ["an answer cut off in the middle", cutOff],
    ["JSON that ends early", status(200, '{"id":"op')],
    ["a page of a proxy", status(200, "<html>")],
    ...[408, 409, 429, 500, 502, 503, 504].map((code): [string, Reply] => [`status ${code}`, status(code)]),
  ])("is sent again after %s, with the same key and the same bytes", async (_, reply) => {
    const { session, requests } = await scriptedSession([reply, reply, PENDING, completed({})], KEPT);
    const { operation } = await session.customForwardBackward(SAMPLES, gradientsFor(SAMPLES, 0.1));
    const posts = requests.slice(0, 3);
    expect(requests[3]?.method).toBe("GET");
    expect(new Set(posts.map(({ body }) => body)).size).toBe(1);
    expect(posts.map(({ headers }) => headers["idempotency-key"])).toEqual(
      Array(3).fill(operation.idempotencyKey),
    );
  });

  test("that the server had accepted before the time of the request was over is found, not repeated", async () => {
    const { session, requests } = await scriptedSession([hang, PENDING, PUBLISHED], {
      requestTimeoutMs: 50,
      maxRetries: 1,
    });
    expect((await session.weightsSync()).weightsVersion).toBe(1);
    const keys = requests.map(({ headers }) => headers["idempotency-key"]);
    expect(keys[0]).toBe(keys[1]);
  });

  test.each([400, 401, 402, 403, 404, 405, 410, 413, 422])(
    "is not sent again after status %d",
    async (code) => {
      const { session, requests } = await scriptedSession([status(code)], KEPT);
      expect(await rejection(session.weightsSync())).toMatchObject({ status: code, attempts: [] });
      expect(requests.length).toBe(1);
    },
  );

  test("obeys x-should-retry both ways", async () => {
    const { session, requests } = await scriptedSession(
      [
        status(503, {}, { "x-should-retry": "false" }),
        status(400, {}, { "x-should-retry": "true" }),
        PUBLISHED,
      ],
      KEPT,
    );
    expect((await rejection(session.weightsSync())).code).toBe("ERR_SERVER");
    expect((await session.weightsSync()).weightsVersion).toBe(1);
    expect(requests.length).toBe(3);
  });

  test("a key used for another body is a conflict at once; a lock is waited for", async () => {
    const conflict = (code: string, message: string) =>
      status(409, { error: { message, type: "conflict", code } });
    const { session, requests } = await scriptedSession(
      [
        conflict("idempotency_conflict", "this key was used for another request"),
        conflict("conflict", "Idempotency key reused with a different payload"),
        conflict("locked", "the session is being resumed"),
        PUBLISHED,
      ],
      KEPT,
    );
    for (let nth = 0; nth < 2; nth++) {
      expect(await rejection(session.weightsSync({}, { idempotencyKey: "mine" }))).toMatchObject({
        name: "IdempotencyConflictError",
        code: "ERR_IDEMPOTENCY_CONFLICT",
        idempotencyKey: "mine",
      });
    }
    expect((await session.weightsSync()).weightsVersion).toBe(1);
    expect(requests.length).toBe(4);
  });

  test("that fails to the end says what was tried, and under which key", async () => {
    const { session, requests } = await scriptedSession([reset, status(503), status(500), status(502)], KEPT);
    const error = await rejection(session.weightsSync());
    expect(error).toMatchObject({ name: "ServerError", status: 502 });
    expect(error.idempotencyKey).toBe(requests[0]?.headers["idempotency-key"]);
    expect(error.message).toMatch(/^502: status 502 \(POST .*\); gave up after 4 attempts in 0\.\d s$/);
    expect(error.attempts).toMatchObject([
      { code: "ERR_CONNECTION", status: undefined, mayHaveArrived: true },
      { code: "ERR_SERVER", status: 503 },
      { code: "ERR_SERVER", status: 500 },
      { code: "ERR_SERVER", status: 502, pauseMs: undefined },
    ]);
  });

  test("gives up where the next pause would go beyond its time", async () => {
    const later = status(503, {}, { "retry-after": "30" });
    const { session } = await scriptedSession([later], KEPT);
    const began = performance.now();
    expect((await rejection(session.weightsSync({}, { timeoutMs: 5000 }))).code).toBe("ERR_SERVER");
    expect(performance.now() - began).toBeLessThan(1000);
  });
});

describe("a creation, which has no key", () => {
  const start = (replies: readonly Reply[]) =>
    serve((_, nth) => replies[nth]!).then((server) => ({
      server,
      started: testClient(server, { maxRetries: 3 }).sessions.start({ modelResourcesId: "r-1" }),
    }));

  test("is sent again where the server has surely not done it", async () => {
    const { server, started } = await start([status(429), status(409), SESSION]);
    expect((await started).id).toBe("s-1");
    expect(server.requests.length).toBe(3);
  });

  test.each<[string, Reply]>([
    ["a reset connection", reset],
    ["status 500", status(500)],
    ["JSON that ends early", status(200, "{")],
  ])("is not sent again after %s", async (_, reply) => {
    const { server, started } = await start([reply, SESSION]);
    expect((await rejection(started)).name).toMatch(/^(Connection|Server|Response)Error$/);
    expect(server.requests.length).toBe(1);
  });

  test("other requests are", async () => {
    const server = await serve((_, nth) =>
      nth < 3 ? [reset, status(500), status(200, "{")][nth]! : SESSION,
    );
    await testClient(server, { maxRetries: 3 }).sessions.stop("s-1");
    expect(server.requests.length).toBe(4);
  });
});

describe("pauses", () => {
  test.each([
    ["250", undefined, 250],
    [undefined, "1.5", 1500],
    [undefined, " 60 ", 60_000],
    ["0", "2", 2000],
    ["70000", "3", 3000],
    [undefined, "61", undefined],
    [undefined, "-1", undefined],
    [undefined, "soon", undefined],
    [undefined, undefined, undefined],
  ])("retry-after-ms %j and retry-after %j", (ms, header, expected) => {
    expect(retryAfter(ms, header)).toBe(expected);
  });

  test("retry-after as a date", () => {
    vi.useFakeTimers({ now: Date.parse("2026-01-01T00:00:00Z") });
    expect(retryAfter(undefined, "Thu, 01 Jan 2026 00:00:20 GMT")).toBe(20_000);
    expect(retryAfter(undefined, "Thu, 01 Jan 2026 00:02:00 GMT")).toBeUndefined();
    expect(retryAfter(undefined, "Wed, 31 Dec 2025 23:59:00 GMT")).toBeUndefined();
    vi.useRealTimers();
  });

  test("grow twofold with full jitter, up to ten seconds", () => {
    const options = { maxRetries: 9, retryDelayMs: 500 };
    for (const [failures, most] of [
      [1, 500],
      [2, 1000],
      [4, 4000],
      [9, 10_000],
      [2000, 10_000],
    ] as const) {
      const pauses = Array.from({ length: 400 }, () => pauseAfter(new Error("x"), failures, options));
      expect(Math.max(...pauses)).toBeLessThanOrEqual(most);
      expect(Math.max(...pauses)).toBeGreaterThan(most * 0.9);
      expect(Math.min(...pauses)).toBeLessThan(most * 0.1);
    }
  });

  test("what a server asks for comes before them", async () => {
    const { session } = await scriptedSession([status(503, {}, { "retry-after-ms": "200" }), DONE], {
      maxRetries: 1,
    });
    const began = performance.now();
    await session.optimStep();
    expect(performance.now() - began).toBeGreaterThan(195);
  });
});

test("a thousand refusals: sockets stay bounded, bodies are drained, calls go on", async () => {
  const page = status(503, `<html>${"x".repeat(20_000)}</html>`);
  const { session, server, requests } = await scriptedSession([...Array(1000).fill(page), PUBLISHED], {
    maxConnections: 4,
    maxRetries: 4,
    retryDelayMs: 1,
  });
  const errors = await Promise.all(
    Array.from({ length: 200 }, () => rejection(session.getOperation("sample", "op-1"))),
  );
  expect(requests.length).toBe(1000);
  expect(errors.every(({ attempts }) => (attempts as unknown[]).length === 5)).toBe(true);
  expect(server.sockets()).toBeLessThanOrEqual(4);
  expect((await session.weightsSync()).weightsVersion).toBe(1);
});
