// Answers held back for longer than the HTTP library's own limits of 300 s. Time is simulated, sockets are real.

import type { ServerResponse } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { answerWith, completed, type Reply, rejection, scriptedSession } from "./server.ts";

// Once, before the first request: the library keeps the clock that it finds then.
beforeAll(() => {
  vi.useFakeTimers({
    toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "performance", "Date"],
  });
});
afterAll(() => {
  vi.useRealTimers();
});

const BODY = JSON.stringify(completed({ step: 1 }));
const HELD_S = 310;

/** Holds back the head of an answer, or its body behind the first bytes. */
function held(part: "head" | "body"): Reply {
  return (response: ServerResponse) => {
    if (part === "body") response.writeHead(200).write(BODY.slice(0, 9));
    setTimeout(() => response.end(part === "body" ? BODY.slice(9) : BODY), HELD_S * 1000);
  };
}

/** Lets simulated time pass until the call has settled. */
async function pass<T>(call: Promise<T>): Promise<T> {
  let over = false;
  const end = () => {
    over = true;
  };
  call.then(end, end);
  for (let second = 0; !over && second < 2000; second++) {
    for (let turn = 0; turn < 30; turn++) await nextTurn();
    vi.advanceTimersByTime(1000);
  }
  return call;
}

test.each(["head", "body"] as const)(
  "a %s held back for 310 s comes in the time of one request",
  async (part) => {
    const { session, requests } = await scriptedSession([held(part)], {
      timeoutMs: 900_000,
      requestTimeoutMs: 900_000,
    });
    expect((await pass(session.optimStep())).step).toBe(1);
    expect(requests.length).toBe(1);
  },
);

test("with the default time of a request too: each attempt waits twice as long, under the same key", async () => {
  const { session, requests } = await scriptedSession(Array(8).fill(held("head")), { maxRetries: 7 });
  expect((await pass(session.optimStep({}, { timeoutMs: 3_600_000 }))).step).toBe(1);
  expect(new Set(requests.map(({ headers }) => headers["idempotency-key"])).size).toBe(1);
  expect(requests.length).toBe(4);
});

test("an answer that never comes is asked for again after a minute", async () => {
  const { session, requests } = await scriptedSession(
    [() => {}, (response) => answerWith(completed({ step: 4 }), response)],
    { maxRetries: 1 },
  );
  expect((await pass(session.optimStep())).step).toBe(4);
  expect(requests.map(({ headers }) => headers["idempotency-key"])).toEqual(
    Array(2).fill(requests[0]!.headers["idempotency-key"]),
  );
});

test("the time of a call is its own limit", async () => {
  const { session } = await scriptedSession([() => {}]);
  const error = await pass(rejection(session.weightsSync({}, { timeoutMs: 30_000 })));
  expect(error.code).toBe("ERR_TIMEOUT");
});
