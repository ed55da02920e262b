// Parts of a batch of which the first are read while the last are still being sent.

import { expect, test } from "vitest";
import type { ClientOptions } from "../../src/client/client.ts";
import type { Session } from "../../src/client/session.ts";
import { GRADIENTS, SAMPLES, SCORES, scored } from "./parts.ts";
import {
  completed,
  failed,
  hang,
  PENDING,
  type Received,
  type Reply,
  rejection,
  SESSION,
  serve,
  status,
  testClient,
  wait,
} from "./server.ts";

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
      nth === 0 ? failed({ code: "TRAINING_OPERATION_ERROR_CODE_RESOURCE_EXHAUSTED" }) : scored(posts[nth]!),
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
