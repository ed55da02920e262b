// What can be seen of the client's work: channels, spans, lines. And what must never be.

import { subscribe, tracingChannel, unsubscribe } from "node:diagnostics_channel";
import { inspect } from "node:util";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import type { OperationEvent, RequestEvent, RetryEvent, Tracer } from "../../src/client/events.ts";
import {
  completed,
  KEY,
  PENDING,
  type Reply,
  rejection,
  reset,
  SAMPLES,
  scriptedSession,
  status,
} from "./server.ts";
import { randomSamples } from "./trainer.ts";

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

const PUBLISHED = completed({ weights_version: 7 });

/** Collects what a tracing channel tells. */
function collect<E extends object>(name: string): { kind: string; event: E }[] {
  const seen: { kind: string; event: E }[] = [];
  const traced = tracingChannel<E, E>(name);
  const handlers = Object.fromEntries(
    (["start", "end", "asyncStart", "asyncEnd", "error"] as const).map((kind) => [
      kind,
      (event: E) => seen.push({ kind, event }),
    ]),
  ) as unknown as Parameters<typeof traced.subscribe>[0];
  traced.subscribe(handlers);
  onTestFinished(() => void traced.unsubscribe(handlers));
  return seen;
}

describe("channels", () => {
  test("tell each request and operation from start to end", async () => {
    const requests = collect<RequestEvent>("tokengrad.request");
    const operations = collect<OperationEvent>("tokengrad.operation");
    const { session } = await scriptedSession([PENDING, PUBLISHED]);
    requests.length = 0;
    await session.weightsSync();
    const ended = requests.filter(({ kind }) => kind === "asyncEnd").map(({ event }) => event);
    expect(ended).toMatchObject([
      { method: "POST", attempt: 0, status: 200, bytesSent: 51 },
      { method: "GET", attempt: 0, status: 200, bytesSent: 0 },
    ]);
    expect(operations.map(({ kind }) => kind)).toEqual(["start", "end", "asyncStart", "asyncEnd"]);
    expect(operations.at(-1)!.event).toMatchObject({
      kind: "weights-sync",
      sessionId: "s-1",
      items: 0,
      operationIds: ["op-1"],
    });
  });

  test("tell failures, and what is sent again after which pause", async () => {
    const requests = collect<RequestEvent & { error?: Error }>("tokengrad.request");
    const retries: RetryEvent[] = [];
    const note = (event: unknown) => retries.push(event as RetryEvent);
    subscribe("tokengrad.retry", note);
    onTestFinished(() => void unsubscribe("tokengrad.retry", note));
    const { session } = await scriptedSession([status(503), PUBLISHED], { maxRetries: 1 });
    await session.weightsSync();
    expect(requests.find(({ kind }) => kind === "error")?.event.error).toMatchObject({ code: "ERR_SERVER" });
    expect(retries).toMatchObject([{ call: "weights-sync", status: 503, code: "ERR_SERVER" }]);
    expect(retries[0]!.pauseMs).toBeGreaterThanOrEqual(0);
  });
});

interface Recorded {
  readonly name: string;
  readonly parent: string | undefined;
  readonly attributes: Record<string, unknown>;
  readonly exceptions: Error[];
  status: unknown;
  ended: boolean;
}

/** A tracer that works as OpenTelemetry's does, within one chain of calls. */
function tracer(): { tracer: Tracer; spans: Recorded[] } {
  const spans: Recorded[] = [];
  const active: Recorded[] = [];
  return {
    spans,
    tracer: {
      startActiveSpan(name, options, work) {
        const span: Recorded = {
          name,
          parent: active.at(-1)?.name,
          attributes: { ...options.attributes },
          exceptions: [],
          status: undefined,
          ended: false,
        };
        spans.push(span);
        active.push(span);
        return work({
          setAttribute: (key, value) => {
            span.attributes[key] = value;
          },
          setStatus: (given) => {
            span.status = given;
          },
          recordException: (error) => void span.exceptions.push(error),
          end: () => {
            span.ended = true;
            active.splice(active.indexOf(span), 1);
          },
        });
      },
    },
  };
}

describe("spans", () => {
  test("of an operation hold those of its requests", async () => {
    const { tracer: given, spans } = tracer();
    const { session } = await scriptedSession([reset, PENDING, PUBLISHED], { tracer: given, maxRetries: 1 });
    spans.length = 0;
    await session.weightsSync();
    expect(spans.map(({ name, parent }) => [name, parent])).toEqual([
      ["tokengrad weights-sync", undefined],
      ["tokengrad POST", "tokengrad weights-sync"],
      ["tokengrad POST", "tokengrad weights-sync"],
      ["tokengrad GET", "tokengrad weights-sync"],
    ]);
    expect(spans.every(({ ended }) => ended)).toBe(true);
    expect(spans[0]!.attributes).toEqual({
      "tokengrad.session": "s-1",
      "tokengrad.items": 0,
      "tokengrad.operations": "op-1",
    });
    expect(spans[1]).toMatchObject({ attributes: { "error.type": "ERR_CONNECTION" }, status: { code: 2 } });
    expect(spans[1]!.exceptions).toHaveLength(1);
    expect(spans[2]!.attributes).toMatchObject({
      "http.request.method": "POST",
      "http.request.resend_count": 1,
      "http.response.status_code": 200,
    });
  });

  test("are those of OpenTelemetry, where it is installed", async ({ skip }) => {
    const name = "@opentelemetry/api";
    const api = await import(/* @vite-ignore */ name).catch(() => undefined);
    if (api === undefined) return skip(`${name} is not installed`);
    const otel: Tracer = api.trace.getTracer("tokengrad");
    const { session } = await scriptedSession([PUBLISHED], { tracer: otel });
    expect((await session.weightsSync()).weightsVersion).toBe(7);
  });
});

describe("a logger", () => {
  const logger = () => {
    const lines: [string, string, object][] = [];
    const take = (level: string) => (message: string, fields: object) =>
      void lines.push([level, message, fields]);
    return { lines, logger: { debug: take("debug"), info: take("info"), warn: take("warn") } };
  };

  test("gets requests, and failures that are waited out", async () => {
    const { lines, logger: given } = logger();
    const { session } = await scriptedSession([PENDING, status(502, "<html>"), PUBLISHED], { logger: given });
    lines.length = 0;
    await session.weightsSync();
    expect(lines.map(([level]) => level)).toEqual(["debug", "debug", "warn", "debug"]);
    expect(lines[0]![1]).toMatch(/^POST http:.*\/operations\/weights-sync 200 \d+ ms$/);
    expect(lines[2]![1]).toMatch(/^weights-sync: ERR_SERVER: 502: an HTML page \(GET .*; again in \d+ ms$/);
  });

  test("is stderr where the environment asks for it", async () => {
    vi.stubEnv("TOGETHER_LOG", "info");
    const written = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    const { session } = await scriptedSession([status(503), PUBLISHED], { maxRetries: 1 });
    await session.weightsSync();
    expect(written.mock.calls.map(([text]) => text)).toEqual([
      expect.stringMatching(/^tokengrad: weights-sync: ERR_SERVER: .*\n$/),
    ]);
  });
});

test("neither key nor bodies nor idempotency keys appear anywhere", async () => {
  const requests = collect<RequestEvent>("tokengrad.request");
  const operations = collect<OperationEvent>("tokengrad.operation");
  const { tracer: given, spans } = tracer();
  const lines: unknown[] = [];
  const take = (...line: unknown[]) => void lines.push(line);
  const samples = randomSamples(1, 9).map((sample) => ({ ...sample, tokens: sample.tokens.slice() }));
  const secret = 424_242_424_242;
  (samples[0]!.tokens as number[])[3] = secret;
  const scores = (data: number[]) =>
    completed({ loss: 1, loss_fn_outputs: [{ tensors: { logprobs: { data } } }] });
  const replies: Reply[] = [
    status(401, { error: { message: `bad key ${KEY}`, type: "auth" } }),
    status(503, `<html>${secret}</html>`),
    scores(Array(9).fill(-0.123456789)),
  ];
  const { session } = await scriptedSession(replies, {
    tracer: given,
    logger: { debug: take, info: take, warn: take },
    maxRetries: 2,
  });
  await rejection(session.forward(SAMPLES));
  await session.forward(samples, { idempotencyKey: "my-own-key" });
  const all = inspect([requests, operations, spans, lines], {
    depth: 20,
    maxArrayLength: null,
    maxStringLength: null,
  });
  expect(all).toContain("forward-backward");
  for (const hidden of [KEY, String(secret), "0.123456", "my-own-key"]) expect(all).not.toContain(hidden);
});
