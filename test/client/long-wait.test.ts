// An answer held back for longer than the HTTP library's own limits of 300 s. Time is simulated, sockets are real.

import type { ServerResponse } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { completed, scriptedSession } from "./server.ts";

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

test.each(["head", "body"])("the %s", async (held) => {
  let waiting: ServerResponse | undefined;
  const { session } = await scriptedSession([
    (response) => {
      if (held === "body") response.writeHead(200).write(BODY.slice(0, 9));
      waiting = response;
    },
  ]);
  const call = session.optimStep({}, { timeoutMs: 900_000 });
  for (let turn = 0; waiting === undefined || turn < 200; turn++) await nextTurn();
  for (let second = 0; second < 620; second++) {
    vi.advanceTimersByTime(1000);
    await nextTurn();
  }
  waiting.end(held === "body" ? BODY.slice(9) : BODY);
  expect((await call).step).toBe(1);
});
