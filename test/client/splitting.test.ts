// Batches that go out in parts: when, how, under which keys, and what comes of a part that fails.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { planChunks } from "../../src/client/chunks.ts";
import type { ClientOptions } from "../../src/client/client.ts";
import type { Sample } from "../../src/client/sample.ts";
import type { Session } from "../../src/client/session.ts";
import { seededRandom } from "../helpers.ts";
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
  wait,
} from "./server.ts";

const random = seededRandom(3);
const SAMPLES: Sample[] = Array.from({ length: 8 }, (_, index) => {
  const length = 2 + index;
  const tokens = Array.from({ length }, () => 1 + Math.floor(random() * 200));
  return { tokens, targets: tokens, weights: tokens.map((_, t) => (t === 0 ? 0 : 1)) };
});
const GRADIENTS = SAMPLES.map(({ weights }) =>
  Float32Array.from(weights, (weight) => weight * (random() - 0.5) * 0.01),
);

const TOO_LARGE = status(413, "<html><h1>413 Request Entity Too Large</h1></html>");

interface Part {
  readonly samples: { model_input: { chunks: { encoded_text: { tokens: number[] } }[] } }[];
  readonly gradients: { data: number[]; dtype: string }[];
}
const partOf = ({ body }: Received) => JSON.parse(body) as Part;
const lengthsOf = (request: Received) =>
  partOf(request).samples.map(({ model_input }) => model_input.chunks[0]!.encoded_text.tokens.length);

/** Scores made of the tokens, so that a row in the wrong place would show. */
const scored = (request: Received) =>
  completed({
    loss: partOf(request).samples.length,
    metrics: { some: 1 },
    loss_fn_outputs: partOf(request).samples.map(({ model_input }) => ({
      tensors: { logprobs: { data: model_input.chunks[0]!.encoded_text.tokens.map((token) => -token) } },
    })),
  });
const SCORES = SAMPLES.map(({ tokens }) => Float32Array.from(tokens as number[], (token) => -token));

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

describe("parts that are sent and read side by side", () => {
  const passes: [string, (session: Session) => Promise<{ operations: readonly unknown[] }>][] = [
    ["scoring", (session) => session.forwardPacked(SAMPLES)],
    ["a custom pass", (session) => session.customForwardBackward(SAMPLES, GRADIENTS)],
  ];
  /** A server that takes each part at once as `op-N`, and answers looks at it as told. */
  async function parts(
    look: (nth: number, posts: readonly Received[]) => Reply | Promise<Reply>,
    take: (request: Received, nth: number) => Reply | Promise<Reply> | undefined = () => undefined,
    options: ClientOptions = {},
  ) {
    const posts: Received[] = [];
    const looks: number[] = [];
    const server = await serve((request) => {
      if (!request.path.includes("/operations/")) return SESSION;
      if (request.method === "GET") {
        const nth = Number(request.path.match(/op-(\d+)$/)![1]);
        looks.push(nth);
        return look(nth, posts);
      }
      const nth = posts.push(request) - 1;
      return take(request, nth) ?? { ...PENDING, id: `op-${nth}` };
    });
    const client = testClient(server, { wireFormat: "loss_inputs", maxChunkSamples: 2, ...options });
    return { session: await client.sessions.attach("s-1"), posts, looks };
  }

  test.each(passes)("%s: the first result is read before the last part is taken", async (_, pass) => {
    let first = () => {};
    const seen = new Promise<void>((resolve) => {
      first = resolve;
    });
    const { session, looks } = await parts(
      (nth, posts) => {
        if (nth === 0) first();
        return scored(posts[nth]!);
      },
      async (_, nth) => {
        if (nth === 3) await seen;
        return { ...PENDING, id: `op-${nth}` };
      },
    );
    const { operations } = await pass(session);
    expect(operations).toMatchObject([{ id: "op-0" }, { id: "op-1" }, { id: "op-2" }, { id: "op-3" }]);
    expect(looks).toEqual([0, 1, 2, 3]);
  });

  test.each(passes)("%s: a part that fails is the error, and no further part is sent", async (_, pass) => {
    const { session, posts } = await parts(
      () => ({ ...failed({ code: "TRAINING_OPERATION_ERROR_CODE_INVALID_INPUT" }), id: "op-0" }),
      async (_, nth) => {
        if (nth > 0) await wait(100);
        return { ...PENDING, id: `op-${nth}` };
      },
    );
    const error = await rejection(pass(session));
    const cause = { code: "ERR_OPERATION_INVALID_INPUT", operationId: "op-0" };
    if (error.code === "ERR_PARTIAL_PASS") expect(error).toMatchObject({ samplesDone: 0, cause });
    else expect(error).toMatchObject(cause);
    await wait(250);
    expect(posts.length).toBe(2);
  });

  test.each(passes)(
    "%s: a part that is refused is the error, and nothing is asked for any more",
    async (_, pass) => {
      const refused = status(401);
      const { session, posts, looks } = await parts(
        () => PENDING,
        async (_, nth) => {
          if (nth === 2) await wait(100);
          return nth === 2 ? refused : { ...PENDING, id: `op-${nth}` };
        },
      );
      const began = performance.now();
      const error = await rejection(pass(session));
      expect(performance.now() - began).toBeLessThan(1000);
      if (error.code === "ERR_PARTIAL_PASS") {
        expect(error).toMatchObject({
          samplesDone: 4,
          operationIds: ["op-0", "op-1"],
          cause: { status: 401 },
        });
      } else expect(error).toMatchObject({ code: "ERR_AUTHENTICATION", status: 401 });
      expect(looks.length).toBeGreaterThan(1);
      const before = looks.length;
      await wait(150);
      expect(looks.length).toBe(before);
      expect(posts.length).toBe(3);
      expect((await session.info()).id).toBe("s-1");
    },
  );

  test("a part that is refused behind others is not tried in the other format", async () => {
    const { session, posts } = await parts(
      () => PENDING,
      (_, nth) => (nth === 1 ? status(422) : undefined),
      { wireFormat: "auto" },
    );
    const error = await rejection(session.customForwardBackward(SAMPLES, GRADIENTS));
    expect(error).toMatchObject({ code: "ERR_PARTIAL_PASS", samplesDone: 2, cause: { status: 422 } });
    expect(posts.length).toBe(2);
  });

  test("halves of the first part follow the last part, and all rows are in order", async () => {
    const { session, posts } = await parts(
      (nth, posts) =>
        nth === 0
          ? failed({ code: "TRAINING_OPERATION_ERROR_CODE_RESOURCE_EXHAUSTED" })
          : scored(posts[nth]!),
      async (_, nth) => {
        if (nth > 0 && nth < 4) await wait(50);
        return { ...PENDING, id: `op-${nth}` };
      },
    );
    const { logprobs, operations, loss } = await session.forward(SAMPLES, { idempotencyKey: "k" });
    expect(logprobs).toEqual(SCORES);
    expect(loss).toBe(8);
    const keys = ["k-0-1", "k-1-2", "k-2-4", "k-4-6", "k-6-8"];
    expect(operations.map(({ idempotencyKey }) => idempotencyKey)).toEqual(keys);
    expect(posts.map(({ headers }) => headers["idempotency-key"])).toEqual([
      "k-0-2",
      ...keys.slice(2),
      ...keys.slice(0, 2),
    ]);
  });

  test("what is behind a custom pass goes out when its last part is taken, whatever its results", async () => {
    let taken = 0;
    const { session, posts } = await parts(
      () => PENDING,
      async (request, nth) => {
        await wait(20);
        if (request.path.endsWith("optim-step")) return completed({ step: 1 });
        taken++;
        return { ...PENDING, id: `op-${nth}` };
      },
    );
    const controller = new AbortController();
    const pass = rejection(session.customForwardBackward(SAMPLES, GRADIENTS, { signal: controller.signal }));
    expect((await session.optimStep()).step).toBe(1);
    expect(taken).toBe(4);
    expect(posts.at(-1)!.path).toMatch(/optim-step$/);
    controller.abort();
    expect(await pass).toMatchObject({ name: "AbortError", operationId: "op-3" });
  });

  test("an abort ends both, and what may have been accepted is told by its key", async () => {
    const { session, posts, looks } = await parts(
      async (nth) => {
        if (nth === 0) await wait(50);
        return nth === 0 ? completed({}) : PENDING;
      },
      (_, nth) => (nth === 2 ? hang : undefined),
    );
    const controller = new AbortController();
    const options = { signal: controller.signal, idempotencyKey: "mine" };
    const call = rejection(session.customForwardBackward(SAMPLES, GRADIENTS, options));
    await expect.poll(() => looks.filter((nth) => nth === 1).length).toBeGreaterThan(1);
    await expect.poll(() => posts.length).toBe(3);
    const began = performance.now();
    controller.abort();
    expect(await call).toMatchObject({ name: "AbortError", idempotencyKey: "mine", operationId: undefined });
    expect(performance.now() - began).toBeLessThan(100);
    const before = looks.length;
    await wait(100);
    expect(looks.length).toBe(before);
  });

  test("attempts that failed are told of the request that gave up, not of others", async () => {
    const { session } = await parts(
      () => status(503),
      async (_, nth) => {
        await wait(30);
        return nth > 0 ? status(500) : { ...PENDING, id: `op-${nth}` };
      },
      { maxRetries: 2 },
    );
    const error = await rejection(session.forward(SAMPLES));
    expect(error).toMatchObject({ code: "ERR_SERVER", status: 500 });
    expect((error.attempts as { status: number }[]).map(({ status }) => status)).toEqual([500, 500, 500]);
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
