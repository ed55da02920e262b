// Operations of a session that are called without waiting for one another.

import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import type { Session } from "../../src/client/session.ts";
import {
  answerWith,
  completed,
  gradientsFor,
  PENDING,
  type Received,
  rejection,
  SAMPLES,
  SESSION,
  serve,
  status,
  testClient,
  wait,
} from "./server.ts";

const GRADIENTS = gradientsFor(SAMPLES, 0.5);
const SCORED = completed({
  loss: 1,
  loss_fn_outputs: [
    { tensors: { logprobs: { data: [0, -1, -2] } } },
    { tensors: { logprobs: { data: [0, -3] } } },
  ],
});
const OUTPUTS: Readonly<Record<string, object>> = {
  "forward-backward": SCORED,
  "custom-forward-backward": completed({}),
  "optim-step": completed({ step: 1 }),
  "weights-sync": completed({ weights_version: 1 }),
  sample: completed({ results: [{ sequences: [] }] }),
  "training-checkpoint": completed({ checkpoint: { id: "c-1", step: 1 } }),
};

const kindOf = ({ path }: Received) => path.match(/operations\/([a-z-]+)/)?.[1] ?? "";

/** A server whose operations are accepted when the test says so. */
async function held(ids = ["s-1"]) {
  const posts: { readonly kind: string; readonly session: string; answer(reply?: object): void }[] = [];
  const server = await serve((request) => {
    if (!request.path.includes("/operations/")) return { ...SESSION, id: request.path.split("/").pop() };
    if (request.method === "GET") return OUTPUTS[kindOf(request)]!;
    return (response: ServerResponse) => {
      const kind = kindOf(request);
      const session = request.path.match(/training-sessions\/([^/]+)/)![1]!;
      posts.push({ kind, session, answer: (reply = PENDING) => answerWith(reply, response) });
    };
  });
  const client = testClient(server, { wireFormat: "loss_inputs" });
  const sessions = await Promise.all(ids.map((id) => client.sessions.attach(id)));
  const kinds = () => posts.map(({ kind }) => kind);
  return { client, posts, kinds, sessions, session: sessions[0]! as Session };
}

test("changes go out one by one, each when the one before it was accepted", async () => {
  const { session, posts, kinds } = await held();
  const all = Promise.all([
    session.customForwardBackward(SAMPLES, GRADIENTS),
    session.optimStep(),
    session.weightsSync(),
  ]);
  const order = ["custom-forward-backward", "optim-step", "weights-sync"];
  for (let nth = 0; nth < order.length; nth++) {
    await expect.poll(kinds).toEqual(order.slice(0, nth + 1));
    await wait(20);
    expect(kinds()).toEqual(order.slice(0, nth + 1));
    posts[nth]!.answer();
  }
  await all;
});

test("reads between two changes go out side by side, behind the one and before the other", async () => {
  const { session, posts, kinds } = await held();
  const all = Promise.all([
    session.optimStep(),
    ...Array.from({ length: 5 }, () => session.sample([[1]])),
    session.trainingCheckpoint(),
    session.optimStep(),
  ]);
  await expect.poll(kinds).toEqual(["optim-step"]);
  posts[0]!.answer();
  await expect.poll(() => kinds().length).toBe(7);
  expect(kinds().slice(1).sort()).toEqual([...Array(5).fill("sample"), "training-checkpoint"]);
  for (const { answer } of posts.slice(1, 6)) answer();
  await wait(20);
  expect(posts.length).toBe(7);
  posts[6]!.answer();
  await expect.poll(() => kinds()[7]).toBe("optim-step");
  posts[7]!.answer();
  await all;
});

test("no step goes out before a batch is scored to its end", async () => {
  const { session, posts, kinds } = await held();
  const forward = session.forward(SAMPLES);
  const step = session.optimStep();
  await expect.poll(kinds).toEqual(["forward-backward"]);
  posts[0]!.answer(SCORED);
  await forward;
  await expect.poll(kinds).toEqual(["forward-backward", "optim-step"]);
  posts[1]!.answer();
  await step;
});

test("sessions do not wait for each other", async () => {
  const { sessions, posts } = await held(["s-1", "s-2", "s-3"]);
  const all = Promise.all(sessions.map((session) => session.optimStep()));
  await expect.poll(() => posts.map(({ session }) => session).sort()).toEqual(["s-1", "s-2", "s-3"]);
  for (const { answer } of posts) answer();
  await all;
});

test("nothing goes out behind a change that was refused; later calls do", async () => {
  const { session, posts, kinds } = await held();
  const custom = rejection(session.customForwardBackward(SAMPLES, GRADIENTS));
  const step = rejection(session.optimStep());
  const sample = rejection(session.sample([[1]]));
  await expect.poll(() => posts.length).toBe(1);
  posts[0]!.answer(status(422, { error: { message: "too long", type: "invalid" } }));
  expect((await custom).code).toBe("ERR_UNPROCESSABLE_ENTITY");
  expect(await step).toMatchObject({
    name: "NotSentError",
    code: "ERR_NOT_SENT",
    message: expect.stringMatching(
      /^optim-step: not sent, since custom-forward-backward before it failed: 422: too long/,
    ),
  });
  expect((await sample).code).toBe("ERR_NOT_SENT");
  expect(kinds()).toEqual(["custom-forward-backward"]);
  const later = session.optimStep();
  await expect.poll(() => posts.length).toBe(2);
  posts[1]!.answer();
  expect((await later).step).toBe(1);
});

test("however often a session is attached, it has one order", async () => {
  const { client, posts, kinds } = await held();
  const [one, other] = await Promise.all([client.sessions.attach("s-1"), client.sessions.attach("s-1")]);
  const all = Promise.all([one!.optimStep(), other!.weightsSync()]);
  await expect.poll(kinds).toEqual(["optim-step"]);
  await wait(20);
  expect(kinds()).toEqual(["optim-step"]);
  posts[0]!.answer();
  await expect.poll(kinds).toEqual(["optim-step", "weights-sync"]);
  posts[1]!.answer();
  await all;
});

test("operations that belong together let nothing in between, and nothing behind them where they fail", async () => {
  const { session, posts, kinds } = await held();
  const together = session.together(async (inTurn) => {
    await inTurn.forward(SAMPLES);
    await wait(30);
    return inTurn.customForwardBackward(SAMPLES, GRADIENTS);
  });
  const step = session.optimStep();
  await expect.poll(kinds).toEqual(["forward-backward"]);
  posts[0]!.answer(SCORED);
  await expect.poll(kinds).toEqual(["forward-backward", "custom-forward-backward"]);
  posts[1]!.answer();
  expect((await together).operation.kind).toBe("custom-forward-backward");
  await expect.poll(() => kinds()[2]).toBe("optim-step");
  posts[2]!.answer();
  await step;

  const failing = rejection(session.together(() => Promise.reject(new Error("mine"))));
  const behind = rejection(session.optimStep());
  expect((await failing).message).toBe("mine");
  expect(await behind).toMatchObject({ code: "ERR_NOT_SENT", cause: { message: "mine" } });
});

test("nothing goes out behind a change whose arguments are wrong, if it was called at the same time", async () => {
  const { session, posts, kinds } = await held();
  for (const wrong of [
    () => session.customForwardBackward(SAMPLES, []),
    () => session.forwardBackward([], { type: "cross_entropy" }),
    () => session.weightsSync({ type: "now" as never }),
    () => session.optimStep({ adam: {}, muon: {} }),
    () => session.customForwardBackward(SAMPLES, GRADIENTS, { timeoutMs: -1 }),
    () => session.weightsSync({}, { idempotencyKey: "" }),
    () => session.forwardBackward(SAMPLES, { type: "cross_entropy" }, null as never),
  ]) {
    const [first, step] = [rejection(wrong()), rejection(session.optimStep())];
    expect((await first).code).toBe("ERR_INPUT");
    expect(await step).toMatchObject({ code: "ERR_NOT_SENT", cause: { code: "ERR_INPUT" } });
  }
  expect(posts).toEqual([]);
  const later = session.optimStep();
  await expect.poll(kinds).toEqual(["optim-step"]);
  posts[0]!.answer();
  await later;
});

test("a failed read is no reason to hold a change back", async () => {
  const { session, posts } = await held();
  const sample = rejection(session.sample([[1]]));
  const step = session.optimStep();
  await expect.poll(() => posts.length).toBe(1);
  posts[0]!.answer(status(422));
  expect((await sample).code).toBe("ERR_UNPROCESSABLE_ENTITY");
  await expect.poll(() => posts.length).toBe(2);
  posts[1]!.answer();
  await step;
});

test("a call that is stopped in the queue was not sent, nor is what stands behind it", async () => {
  const { session, posts, kinds } = await held();
  const first = session.weightsSync();
  const controller = new AbortController();
  const custom = rejection(session.customForwardBackward(SAMPLES, GRADIENTS, { signal: controller.signal }));
  const step = rejection(session.optimStep());
  await expect.poll(() => posts.length).toBe(1);
  controller.abort();
  expect(await custom).toMatchObject({ name: "AbortError", message: "custom-forward-backward: aborted" });
  expect((await step).code).toBe("ERR_NOT_SENT");
  posts[0]!.answer();
  await first;
  expect(kinds()).toEqual(["weights-sync"]);
});

test("a change that was accepted and fails later does not stop those behind it", async () => {
  const server = await serve((request) => {
    if (!request.path.includes("/operations/")) return SESSION;
    if (kindOf(request) !== "custom-forward-backward") return OUTPUTS[kindOf(request)]!;
    return request.method === "POST"
      ? PENDING
      : { id: "op-1", status: "TRAINING_OPERATION_STATUS_FAILED", error: { message: "no" } };
  });
  const session = await testClient(server).sessions.attach("s-1");
  const custom = rejection(session.customForwardBackward(SAMPLES, GRADIENTS));
  expect((await session.optimStep()).step).toBe(1);
  expect((await custom).code).toBe("ERR_OPERATION_UNSPECIFIED");
});
