// Calls that are stopped, by their signal or by their time limit, at any moment.

import { type AddressInfo, createServer, type Socket } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, onTestFinished, test } from "vitest";
import {
  answerWith,
  completed,
  DONE,
  hang,
  PENDING,
  type Reply,
  rejection,
  SESSION,
  scriptedSession,
  serve,
  status,
  testClient,
  wait,
} from "./server.ts";

const reason = new Error("enough");

async function abortedAfter(replies: Reply[], ms: number) {
  const { session, requests } = await scriptedSession([...replies, DONE]);
  const controller = new AbortController();
  const call = rejection(session.optimStep({}, { signal: controller.signal }));
  await wait(ms);
  const began = performance.now();
  controller.abort(reason);
  const error = await call;
  expect(performance.now() - began).toBeLessThan(100);
  expect(error).toMatchObject({ name: "AbortError", code: "ERR_ABORTED", cause: reason });
  return { error, session, requests };
}

test("before: nothing is sent", async () => {
  const { session, requests } = await scriptedSession([DONE]);
  const error = await rejection(session.optimStep({}, { signal: AbortSignal.abort(reason) }));
  expect(error).toMatchObject({ name: "AbortError", cause: reason, message: "optim-step: aborted" });
  expect(requests).toEqual([]);
});

test("while the body is made: nothing is sent", async () => {
  const { session, requests } = await scriptedSession([completed({})]);
  const length = 2_000_000;
  const row = new Int32Array(length);
  const samples = [{ tokens: row, targets: row, weights: new Float32Array(length).fill(0.1) }];
  const controller = new AbortController();
  const call = rejection(
    session.customForwardBackward(samples, [new Float32Array(length).fill(0.3)], {
      signal: controller.signal,
    }),
  );
  await wait(20);
  const began = performance.now();
  controller.abort();
  const error = await call;
  expect(performance.now() - began).toBeLessThan(100);
  expect(error).toMatchObject({ name: "AbortError", message: "custom-forward-backward: aborted" });
  expect(requests).toEqual([]);
});

test("after one format was refused and before the other is sent: no key is named", async () => {
  // Plain arrays, which take their time.
  const length = 2_000_000;
  const row = Array<number>(length).fill(7);
  const samples = [{ tokens: row, targets: row, weights: Array<number>(length).fill(0.1) }];
  const controller = new AbortController();
  const refuse: Reply = (response) => {
    status(422)(response);
    setTimeout(() => controller.abort(), 15);
  };
  const { session, requests } = await scriptedSession([refuse, completed({})]);
  const call = session.customForwardBackward(samples, [Array<number>(length).fill(0.3)], {
    signal: controller.signal,
  });
  expect((await rejection(call)).message).toBe("custom-forward-backward: aborted");
  expect(requests.length).toBe(1);
});

test("while the request is out: the error has its key, and the client goes on", async () => {
  const { error, session, requests } = await abortedAfter([hang], 30);
  const key = requests[0]?.headers["idempotency-key"];
  expect(error.idempotencyKey).toBe(key);
  expect(error.operationId).toBeUndefined();
  expect(error.message).toBe(
    `optim-step: aborted; the server may have accepted it under idempotency key ${key}`,
  );
  expect((await session.optimStep()).step).toBe(1);
});

test("while a poll is out: the error has the operation", async () => {
  const { error, session } = await abortedAfter([PENDING, hang], 30);
  expect(error.operationId).toBe("op-1");
  expect(error.message).toBe("optim-step: aborted; operation op-1 may still run on the server");
  expect((await session.optimStep()).step).toBe(1);
});

test("while a body is uploaded: at once, and its buffers are freed", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  // Reads nothing, so that the upload stands still.
  const sockets: Socket[] = [];
  const stuck = createServer((socket) => sockets.push(socket.pause().on("error", () => {})));
  await new Promise<void>((resolve) => stuck.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    stuck.close();
  });
  const { port } = stuck.address() as AddressInfo;
  const server = await serve(({ path }) =>
    path.endsWith("upload-url") ? { payload_id: "p", upload_url: `http://127.0.0.1:${port}/up` } : SESSION,
  );
  const client = testClient(server);
  const session = await client.sessions.attach("s-1");
  const length = 1_000_000;
  const row = new Int32Array(length);
  const samples = [{ tokens: row, targets: row, weights: new Float32Array(length).fill(0.1) }];
  const gradients = [new Float32Array(length).fill(0.3)];
  const run = async () => {
    const controller = new AbortController();
    const call = rejection(session.customForwardBackward(samples, gradients, { signal: controller.signal }));
    const before = sockets.length;
    await expect.poll(() => sockets.length, { timeout: 10_000 }).toBeGreaterThan(before);
    await wait(20);
    const began = performance.now();
    controller.abort(reason);
    expect(await call).toMatchObject({
      name: "AbortError",
      operationId: undefined,
      idempotencyKey: undefined,
    });
    expect(performance.now() - began).toBeLessThan(100);
  };
  await run();
  await wait(50);
  collect();
  const before = process.memoryUsage();
  for (let nth = 0; nth < 4; nth++) await run();
  const grown = (kind: "external" | "heapUsed") => {
    collect();
    return process.memoryUsage()[kind] - before[kind];
  };
  await expect.poll(() => grown("external")).toBeLessThan(5e6);
  await expect.poll(() => grown("heapUsed")).toBeLessThan(5e6);
  expect((await session.info()).id).toBe("s-1");
});

test("between two polls", async () => {
  const { session } = await scriptedSession(Array(50).fill(PENDING), { pollIntervalMs: 60_000 });
  const controller = new AbortController();
  const call = rejection(session.optimStep({}, { signal: controller.signal }));
  await wait(200);
  const began = performance.now();
  controller.abort();
  expect((await call).operationId).toBe("op-1");
  expect(performance.now() - began).toBeLessThan(100);
});

test("while an answer arrives", async () => {
  const dripping: Reply = (response) => {
    response.writeHead(200);
    response.write("{");
  };
  await abortedAfter([dripping], 30);
});

test("a signal shared by many calls is let go by each", async () => {
  const { session } = await scriptedSession(Array(20).fill(DONE));
  const { signal } = new AbortController();
  let listeners = 0;
  const { addEventListener, removeEventListener } = signal;
  signal.addEventListener = (...parameters: Parameters<typeof addEventListener>) => {
    listeners++;
    addEventListener.apply(signal, parameters);
  };
  signal.removeEventListener = (...parameters: Parameters<typeof removeEventListener>) => {
    listeners--;
    removeEventListener.apply(signal, parameters);
  };
  const warnings: Error[] = [];
  const warn = (warning: Error) => warnings.push(warning);
  process.on("warning", warn);
  await Promise.all(Array.from({ length: 20 }, () => session.optimStep({}, { signal })));
  await wait(10);
  process.off("warning", warn);
  expect(listeners).toBe(0);
  expect(warnings).toEqual([]);
});

test("when the time is up", async () => {
  const { session } = await scriptedSession([PENDING, status(503), hang]);
  const error = await rejection(session.optimStep({}, { timeoutMs: 200 }));
  expect(error).toMatchObject({ name: "TimeoutError", code: "ERR_TIMEOUT", operationId: "op-1" });
  // The last failure is not the request that the end itself cut off.
  expect(error.message).toMatch(
    /^optim-step: no result within 200 ms; operation op-1 may still run on the server; failed requests: 1, the last: ERR_SERVER: 503: status 503 \(GET /,
  );
  expect(error.cause).toMatchObject({ code: "ERR_SERVER" });
  expect(error.attempts).toMatchObject([{ status: 503, code: "ERR_SERVER" }]);
});

test("a server that is gone is named when the time is up, with what was tried", async () => {
  const { session, server } = await scriptedSession([
    (response) => {
      answerWith(PENDING, response);
      response.on("close", () => server.close());
    },
  ]);
  const error = await rejection(session.weightsSync({}, { timeoutMs: 300 }));
  expect(error.message).toMatch(
    /^weights-sync: no result within 300 ms; operation op-1 .*; failed requests: \d+, the last: ERR_CONNECTION: connect ECONNREFUSED/,
  );
  expect((error.attempts as unknown[]).length).toBeGreaterThan(1);
});

test("the client's own limit holds where a call gives none, and no limit is one too", async () => {
  const { session } = await scriptedSession([hang, PENDING, DONE], { timeoutMs: 60 });
  expect((await rejection(session.weightsSync())).message).toMatch(
    /^weights-sync: no result within 60 ms; the server may have accepted it under idempotency key /,
  );
  expect((await session.optimStep({}, { timeoutMs: Number.POSITIVE_INFINITY })).step).toBe(1);
  expect((await rejection(session.optimStep({}, { timeoutMs: -1 }))).code).toBe("ERR_INPUT");
});

test("while rows of plain values are copied: at once", { retry: 2 }, async () => {
  const { session, requests } = await scriptedSession([DONE]);
  const row = new Array<string>(3_000_000).fill("12345");
  const weights = new Float32Array(row.length).fill(1);
  const controller = new AbortController();
  const { signal } = controller;
  const call = rejection(session.forward([{ tokens: row, targets: row, weights }], { signal }));
  await wait(20);
  const began = performance.now();
  controller.abort(reason);
  expect(await call).toMatchObject({ name: "AbortError", cause: reason });
  expect(performance.now() - began).toBeLessThan(100);
  expect(requests).toEqual([]);
});
