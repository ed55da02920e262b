// The choice between the two wire formats.

import { expect, test } from "vitest";
import type { Session } from "../../src/client/session.ts";
import { LOSS, POLICY_SAMPLE } from "./bodies.ts";
import { PENDING, rejection, reset, SAMPLES, scriptedSession, status } from "./server.ts";

const formatOf = (body: string) => (body.includes('"loss_inputs"') ? "loss_inputs" : "loss_fn_inputs");
const refuse = (message: string, code = 422) => status(code, { error: { message, type: "invalid_request" } });
const step = (session: Session, options = {}) =>
  session.forwardBackward(SAMPLES, { type: "cross_entropy" }, options);

test("begins with loss_inputs and stays with it once it was taken", async () => {
  const { session, requests } = await scriptedSession([LOSS, refuse("token 6 is out of vocabulary")]);
  await step(session);
  expect((await rejection(step(session))).code).toBe("ERR_UNPROCESSABLE_ENTITY");
  expect(requests.map(({ body }) => formatOf(body))).toEqual(["loss_inputs", "loss_inputs"]);
});

test.each([400, 422])("tries the other on a %d with a new key, and remembers", async (code) => {
  const { session, requests, client } = await scriptedSession([
    refuse("loss_fn_inputs: missing", code),
    LOSS,
    LOSS,
  ]);
  const { operation } = await step(session);
  expect(requests.map(({ body }) => formatOf(body))).toEqual(["loss_inputs", "loss_fn_inputs"]);
  const keys = requests.map(({ headers }) => headers["idempotency-key"]);
  expect(keys[0]).not.toBe(keys[1]);
  expect(operation.idempotencyKey).toBe(keys[1]);
  await step(await client.sessions.attach("s-1"));
  expect(formatOf(requests[2]!.body)).toBe("loss_fn_inputs");
});

test("a given key gets an ending of its own for the second body", async () => {
  const { session, requests } = await scriptedSession([refuse("loss_fn_inputs: missing"), PENDING, LOSS]);
  const { operation } = await step(session, { idempotencyKey: "mine" });
  expect(requests.slice(0, 2).map(({ headers }) => headers["idempotency-key"])).toEqual([
    "mine",
    "mine-loss_fn_inputs",
  ]);
  expect(operation.idempotencyKey).toBe("mine-loss_fn_inputs");
});

test("a repeat of a call gets the keys of the first, whatever is known of the format by then", async () => {
  const { session, requests } = await scriptedSession([
    refuse("loss_fn_inputs: missing"),
    reset,
    refuse("loss_fn_inputs: missing"),
    LOSS,
    LOSS,
  ]);
  const lost = await rejection(step(session, { idempotencyKey: "mine" }));
  expect(lost.idempotencyKey).toBe("mine");
  for (let nth = 0; nth < 2; nth++) await step(session, { idempotencyKey: lost.idempotencyKey });
  const second = "mine-loss_fn_inputs";
  expect(requests.map(({ headers }) => headers["idempotency-key"])).toEqual([
    "mine",
    second,
    "mine",
    second,
    second,
  ]);
});

test.each([401, 409, 413, 429, 500])("does not try the other on a %d", async (code) => {
  const { session, requests } = await scriptedSession([refuse("no", code)]);
  expect(await rejection(step(session))).toMatchObject({ status: code });
  expect(requests.length).toBe(1);
});

test.each([
  ["loss_fn_inputs: missing", "sequence too long", 1],
  ["samples[0].loss_inputs: unknown field", "samples[0].loss_fn_inputs.target_tokens: out of vocabulary", 1],
  ["samples[0].loss_inputs.weights: negative", "samples[0].loss_inputs: missing", 0],
  ["sequence too long", "loss_inputs: missing", 0],
  ["sequence too long", "sequence too long", 0],
])("both refused with %j and %j: throws the more telling one", async (first, second, telling) => {
  const { session, requests } = await scriptedSession([refuse(first), refuse(second)]);
  const error = await rejection(step(session));
  expect(error.message).toContain(`422: ${telling === 0 ? first : second} (`);
  expect(requests.length).toBe(2);
});

test("samples that only one format can carry go out in that one", async () => {
  const { session, requests } = await scriptedSession([LOSS, LOSS, refuse("no"), LOSS]);
  const keyed = [{ ...SAMPLES[0]!, routedExpertsKey: "k" }];
  const inline = [{ ...SAMPLES[0]!, routedExperts: { data: new Uint16Array(3), shape: [3, 1, 1] as const } }];
  await session.forwardBackward(keyed, { type: "cross_entropy" });
  await session.forwardBackward(inline, { type: "cross_entropy" });
  expect((await rejection(session.forwardBackward(keyed, { type: "cross_entropy" }))).code).toMatch(
    /^ERR_UNPROC/,
  );
  await session.forwardBackward([POLICY_SAMPLE], { type: "dppo" });
  expect(requests.map(({ body }) => formatOf(body))).toEqual([
    "loss_fn_inputs",
    "loss_inputs",
    "loss_fn_inputs",
    "loss_fn_inputs",
  ]);
  const both = [...keyed, ...inline];
  expect((await rejection(session.forward(both))).message).toBe(
    "samples[0].routedExpertsKey, sample 0: the wire format loss_inputs carries routedExperts instead",
  );
});
