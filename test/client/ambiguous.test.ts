// Optimizer steps whose outcome cannot be known: a typed error, never a guess.

import { expect, test } from "vitest";
import { DONE, hang, PENDING, type Reply, rejection, reset, scriptedSession, status } from "./server.ts";

const RETRIES = { maxRetries: 2 };

test.each<[string, readonly Reply[]]>([
  ["all attempts got lost", [reset, reset, reset]],
  ["the server only had errors", [status(503), status(500), status(502)]],
  ["the answers made no sense", [status(200, "{"), status(200, ""), status(200, "<html>")]],
  ["the first got lost and the others were refused", [reset, status(401)]],
  ["the answer has no id", [{ status: PENDING.status }]],
])("%s", async (_, replies) => {
  const { session, requests } = await scriptedSession([...replies, DONE], RETRIES);
  const error = await rejection(session.optimStep());
  expect(error).toMatchObject({
    name: "AmbiguousStepError",
    code: "ERR_AMBIGUOUS_STEP",
    operationId: undefined,
  });
  const key = requests[0]!.headers["idempotency-key"] as string;
  expect(error.idempotencyKey).toBe(key);
  expect(error.message).toContain(`repeat the call with idempotencyKey "${key}"`);
  // What the error says to do.
  expect((await session.optimStep({}, { idempotencyKey: key })).step).toBe(1);
  expect(requests.at(-1)!.headers["idempotency-key"]).toBe(key);
});

test("the time is up before an answer", async () => {
  const { session } = await scriptedSession([hang]);
  const error = await rejection(session.optimStep({}, { timeoutMs: 80 }));
  expect(error).toMatchObject({ code: "ERR_AMBIGUOUS_STEP", cause: { code: "ERR_TIMEOUT" } });
});

test.each([404, 410])("the server has forgotten the operation: %d", async (code) => {
  const { session } = await scriptedSession([PENDING, status(code)]);
  const error = await rejection(session.optimStep());
  expect(error).toMatchObject({ code: "ERR_AMBIGUOUS_STEP", operationId: "op-1", cause: { status: code } });
});

test.each<[string, readonly Reply[], string]>([
  ["refused", [status(422)], "ERR_UNPROCESSABLE_ENTITY"],
  ["turned away to the end", [status(429), status(429), status(429)], "ERR_RATE_LIMIT"],
])("a step that was only ever %s was not made", async (_, replies, code) => {
  const { session } = await scriptedSession(replies, RETRIES);
  expect((await rejection(session.optimStep())).code).toBe(code);
});

test("a server that cannot be reached at all has not made the step", async () => {
  const { session, server } = await scriptedSession([]);
  server.close();
  expect((await rejection(session.optimStep())).code).toBe("ERR_CONNECTION");
});

test("a step that is still under way when the time is up is known by its operation", async () => {
  const { session } = await scriptedSession([PENDING, hang]);
  const error = await rejection(session.optimStep({}, { timeoutMs: 80 }));
  expect(error).toMatchObject({ code: "ERR_TIMEOUT", operationId: "op-1" });
});
