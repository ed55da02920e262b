// Batches that go out in parts: when, how, under which keys, and what comes of a part that fails.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { planChunks } from "../../src/client/chunks.ts";
import type { ClientOptions } from "../../src/client/client.ts";
import { GRADIENTS, lengthsOf, partOf, SAMPLES, SCORES, scored } from "./parts.ts";
import {
  completed,
  failed,
  hang,
  PENDING,
  type Received,
  type Reply,
  rejection,
  reset,
  SESSION,
  serve,
  status,
  testClient,
} from "./server.ts";

const TOO_LARGE = status(413, "<html><h1>413 Request Entity Too Large</h1></html>");

async function splitting(answer: (request: Received, nth: number) => Reply, options: ClientOptions = {}) {
  const posts: Received[] = [];
  const server = await serve((request) => {
    if (!request.path.includes("/operations/")) return SESSION;
    posts.push(request);
    return answer(request, posts.length - 1);
  });
  const client = testClient(server, { wireFormat: "loss_inputs", ...options });
  return { session: await client.sessions.attach("s-1"), posts };
}

/** Refuses requests of more than so many samples. */
const atMost =
  (samples: number, answer: (request: Received) => Reply): ((request: Received) => Reply) =>
  (request) =>
    partOf(request).samples.length > samples ? TOO_LARGE : answer(request);

describe("the planner", () => {
  test("covers every sample once, in order, within the limits, with the fewest parts", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 20, max: 90 }),
        (sizes, maxSamples, maxBytes) => {
          const size = (from: number, to: number) => sizes.slice(from, to).reduce((sum, n) => sum + n, 0);
          const range = { from: 0, to: sizes.length };
          const chunks = planChunks(range, { maxSamples, maxBytes }, ({ from, to }) => size(from, to));
          expect(chunks[0]!.from).toBe(0);
          expect(chunks.at(-1)!.to).toBe(sizes.length);
          for (const [index, { from, to }] of chunks.entries()) {
            expect(to - from).toBeGreaterThan(0);
            expect(to - from).toBeLessThanOrEqual(maxSamples);
            if (to - from > 1) expect(size(from, to)).toBeLessThanOrEqual(maxBytes);
            const next = chunks[index + 1];
            if (next === undefined) continue;
            expect(next.from).toBe(to);
            // One sample more would have been too much.
            expect(to - from === maxSamples || size(from, to + 1) > maxBytes).toBe(true);
          }
        },
      ),
    );
  });
});

describe("a custom pass", () => {
  test("sends the same gradients, bit by bit, whole or in parts", async () => {
    const textOf = async (options: ClientOptions) => {
      const { session, posts } = await splitting(() => completed({}), options);
      const result = await session.customForwardBackward(SAMPLES, GRADIENTS);
      expect(result.operations.length).toBe(posts.length);
      expect(result.operation).toBe(result.operations.at(-1));
      const inner = (body: string, name: string) =>
        body.match(new RegExp(`"${name}":\\[(.*?\\})\\](?=,"|\\}$)`))![1];
      return {
        parts: posts.length,
        samples: posts.map(({ body }) => inner(body, "samples")).join(","),
        gradients: posts.map(({ body }) => inner(body, "gradients")).join(","),
      };
    };
    const whole = await textOf({});
    expect(whole.parts).toBe(1);
    expect(await textOf({ maxChunkSamples: 4 })).toEqual({ ...whole, parts: 2 });
    expect(await textOf({ maxChunkSamples: 3 })).toEqual({ ...whole, parts: 3 });
    const bySize = await textOf({ payloads: "inline", maxChunkBytes: 500 });
    expect(bySize.parts).toBeGreaterThan(3);
    expect(bySize).toEqual({ ...whole, parts: bySize.parts });
  });

  test("that is too large is halved until it fits, never sent again as it was", async () => {
    const { session, posts } = await splitting(atMost(3, () => completed({})));
    const { operations } = await session.customForwardBackward(SAMPLES, GRADIENTS, { idempotencyKey: "k" });
    expect(posts.map((post) => partOf(post).samples.length)).toEqual([8, 4, 2, 2, 4, 2, 2]);
    expect(operations.map(({ idempotencyKey }) => idempotencyKey)).toEqual([
      "k-0-2",
      "k-2-4",
      "k-4-6",
      "k-6-8",
    ]);
    const accepted = posts.filter((post) => partOf(post).samples.length <= 3).flatMap(lengthsOf);
    expect(accepted).toEqual(SAMPLES.map(({ tokens }) => tokens.length));
  });

  test("with one sample that is too large by itself is an error with sizes", async () => {
    const { session, posts } = await splitting(() => TOO_LARGE, { maxRetries: 3 });
    const error = await rejection(session.customForwardBackward(SAMPLES.slice(0, 2), GRADIENTS.slice(0, 2)));
    expect(error).toMatchObject({ name: "PayloadTooLargeError", code: "ERR_PAYLOAD_TOO_LARGE", status: 413 });
    expect(error.bytes).toBe(Buffer.byteLength(posts[1]!.body));
    expect(error.message).toMatch(/^413: an HTML page \(POST .*\); the body had \d+ bytes$/);
    expect(posts.length).toBe(2);
  });

  test("of which a part is refused says which samples count, and is completed under its key", async () => {
    let refuse = true;
    const { session, posts } = await splitting(
      (_, nth) => (refuse && nth === 2 ? status(422) : PENDING_THEN_DONE(nth)),
      {
        maxChunkSamples: 2,
      },
    );
    const error = await rejection(
      session.customForwardBackward(SAMPLES, GRADIENTS, { idempotencyKey: "mine" }),
    );
    expect(error).toMatchObject({
      name: "PartialPassError",
      code: "ERR_PARTIAL_PASS",
      samplesDone: 4,
      operationIds: ["op-0", "op-1"],
      idempotencyKey: "mine",
      cause: { status: 422 },
    });
    expect(error.message).toContain("only the first 4 of 8 samples");
    refuse = false;
    const before = posts.length;
    const again = await session.customForwardBackward(SAMPLES, GRADIENTS, { idempotencyKey: "mine" });
    expect(again.operations.length).toBe(4);
    const [first, second] = [posts.slice(0, 2), posts.slice(before, before + 2)];
    for (const [index, post] of first.entries()) {
      expect(second[index]!.body).toBe(post.body);
      expect(second[index]!.headers["idempotency-key"]).toBe(post.headers["idempotency-key"]);
    }
  });

  test("of which a part fails later says from where on the samples do not count", async () => {
    const { session } = await splitting(
      (_, nth) => (nth === 1 ? { ...failed({ code: "X" }), id: "op-1" } : PENDING_THEN_DONE(nth)),
      { maxChunkSamples: 2 },
    );
    const error = await rejection(session.customForwardBackward(SAMPLES, GRADIENTS));
    expect(error).toMatchObject({ code: "ERR_PARTIAL_PASS", samplesDone: 2, cause: { operationId: "op-1" } });
  });

  test("that is stopped between its parts names the key that completes it", async () => {
    const { session } = await splitting((_, nth) => (nth === 0 ? PENDING_THEN_DONE(0) : hang), {
      maxChunkSamples: 4,
    });
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 60);
    const options = { idempotencyKey: "mine", signal: controller.signal };
    const error = await rejection(session.customForwardBackward(SAMPLES, GRADIENTS, options));
    expect(error).toMatchObject({ name: "AbortError", idempotencyKey: "mine", operationId: undefined });
  });

  test("whose parts were all accepted when the time is up is only late", async () => {
    const { session } = await splitting((request) => (request.method === "POST" ? PENDING : hang), {
      maxChunkSamples: 4,
    });
    const error = await rejection(session.customForwardBackward(SAMPLES, GRADIENTS, { timeoutMs: 100 }));
    expect(error).toMatchObject({ code: "ERR_TIMEOUT", operationId: "op-1" });
  });

  test("whose only operation fails is no partial pass", async () => {
    const { session } = await splitting(() => reset);
    expect((await rejection(session.customForwardBackward(SAMPLES, GRADIENTS))).code).toBe("ERR_CONNECTION");
  });
});

const PENDING_THEN_DONE = (nth: number) => ({ ...completed({}), id: `op-${nth}` });

describe("scoring", () => {
  test.each<[string, (answer: (request: Received) => Reply) => (request: Received) => Reply, ClientOptions]>([
    ["within the limit of samples", (answer) => answer, { maxChunkSamples: 3 }],
    ["after a 413", (answer) => atMost(3, answer), {}],
    [
      "after answers without log-probabilities",
      (answer) => none({ loss: 1, loss_fn_outputs: [] }, answer),
      {},
    ],
    ["after answers without the member", (answer) => none({ loss: 1 }, answer), {}],
    [
      "where the service ran out of memory",
      (answer) => (request) =>
        partOf(request).samples.length > 3
          ? failed({ code: "TRAINING_OPERATION_ERROR_CODE_RESOURCE_EXHAUSTED" })
          : answer(request),
      {},
    ],
  ])("%s gives the rows of the whole batch in order", async (_, limit, options) => {
    const { session, posts } = await splitting(limit(scored), options);
    const result = await session.forward(SAMPLES);
    expect(result.logprobs).toEqual(SCORES);
    expect(result.loss).toBe(8);
    expect(result.metrics).toEqual({});
    expect(result.operations.length).toBeGreaterThan(2);
    expect(new Set(posts.map(({ headers }) => headers["idempotency-key"])).size).toBe(posts.length);
  });

  test("in halves goes out in the wire format that was taken", async () => {
    const unknown = status(400, { error: { message: "unknown field loss_inputs", param: "loss_inputs" } });
    const { session, posts } = await splitting(
      (request) => {
        if (request.body.includes('"loss_inputs"')) return unknown;
        return partOf(request).samples.length > 4
          ? failed({ code: "TRAINING_OPERATION_ERROR_CODE_RESOURCE_EXHAUSTED" })
          : scored(request);
      },
      { wireFormat: "auto" },
    );
    expect((await session.forward(SAMPLES)).logprobs).toEqual(SCORES);
    expect(posts.map(({ body }) => body.includes('"loss_inputs"'))).toEqual([true, false, false, false]);
  });

  test("in one piece keeps its metrics", async () => {
    const { session } = await splitting(scored);
    expect((await session.forward(SAMPLES)).metrics).toEqual({ some: 1 });
  });

  test("with another loss is not split: its loss could not be told", async () => {
    const policy = SAMPLES.map((sample) => ({
      ...sample,
      advantages: sample.weights,
      logprobs: sample.weights,
    }));
    const { session, posts } = await splitting(atMost(3, scored));
    const error = await rejection(session.forward(policy, { loss: { type: "ppo" } }));
    expect(error.code).toBe("ERR_PAYLOAD_TOO_LARGE");
    expect(posts.length).toBe(1);
  });

  test("a built-in loss with gradients is never split or sliced", async () => {
    const { session, posts } = await splitting(atMost(3, scored), { maxChunkSamples: 2 });
    const error = await rejection(session.forwardBackward(SAMPLES, { type: "cross_entropy" }));
    expect(error.code).toBe("ERR_PAYLOAD_TOO_LARGE");
    expect(posts.length).toBe(1);
  });
});

/** Answers larger batches with an output that lacks the scores. */
function none(output: object, answer: (request: Received) => Reply): (request: Received) => Reply {
  return (request) => (partOf(request).samples.length > 3 ? completed(output) : answer(request));
}

test("limits out of range are refused", async () => {
  for (const options of [{ maxChunkSamples: 0 }, { maxChunkBytes: 1.5 }, { payloads: "always" as never }]) {
    const server = await serve(() => SESSION);
    expect(() => testClient(server, options)).toThrow(new RegExp(`^${Object.keys(options)[0]}: expected`));
  }
});
