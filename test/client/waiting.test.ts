// Waiting for the results of operations over real sockets: pauses, hiccups, failures.

import { expect, test } from "vitest";
import {
  answerWith,
  cutOff,
  DONE,
  failed,
  PENDING,
  type Reply,
  rejection,
  reset,
  SAMPLES,
  scriptedSession,
  status,
} from "./server.ts";

test("failures on the way are not results: the operation is neither lost nor sent again", async () => {
  const hiccups = [
    status(502, "<html>"),
    reset,
    cutOff,
    status(429),
    status(408),
    status(409),
    status(503),
    // A proxy that restarts, and an answer cut off at its end.
    status(400, ""),
    status(200, '{"id":"op-1","status":"TRAINING'),
  ];
  const { session, requests } = await scriptedSession([PENDING, ...hiccups, PENDING, DONE]);
  expect((await session.optimStep()).step).toBe(1);
  expect(requests.filter(({ method }) => method === "POST").length).toBe(1);
  expect(requests.length).toBe(hiccups.length + 3);
  expect(requests[11]?.path).toBe("/v1/rl/training-sessions/s-1/operations/optim-step/op-1");
});

test("a pause that the server asks for is kept", async () => {
  const { session } = await scriptedSession([PENDING, status(429, {}, { "retry-after": "0.3" }), DONE]);
  const began = performance.now();
  await session.optimStep();
  expect(performance.now() - began).toBeGreaterThan(295);
});

test("a refusal without a word is meant when it comes again and again", async () => {
  const { session, requests } = await scriptedSession([PENDING, ...Array(9).fill(status(400, ""))]);
  expect((await rejection(session.weightsSync())).code).toBe("ERR_BAD_REQUEST");
  expect(requests.length).toBe(5);
});

test.each([400, 401, 404, 410])("status %d while waiting is a failure", async (code) => {
  const { session, requests } = await scriptedSession([PENDING, status(code)]);
  expect(await rejection(session.weightsSync())).toMatchObject({ status: code });
  expect(requests.length).toBe(2);
});

test("the first look comes at once, later ones after growing pauses up to the limit", async () => {
  const running = { ...PENDING, status: "TRAINING_OPERATION_STATUS_RUNNING" };
  const unspecified = { ...PENDING, status: "TRAINING_OPERATION_STATUS_UNSPECIFIED" };
  const times: number[] = [];
  const timed =
    (reply: Reply): Reply =>
    (response) => {
      times.push(performance.now());
      answerWith(reply, response);
    };
  const replies = [PENDING, ...Array(7).fill(running), unspecified, DONE].map(timed);
  const { session } = await scriptedSession(replies, { pollIntervalMs: 60 });
  await session.optimStep();
  const pauses = times.slice(1).map((time, index) => time - times[index]!);
  expect(pauses[1]).toBeGreaterThan(4);
  // The eighth pause lies between half of and the whole limit; the second began at 10 ms.
  expect(pauses[8]).toBeGreaterThanOrEqual(29);
  expect(pauses[0]! + pauses[1]!).toBeLessThan(pauses[7]! + pauses[8]!);
});

test.each([
  ["RESOURCE_EXHAUSTED", true],
  ["TIMEOUT", true],
  ["INTERNAL_ERROR", false],
  ["SESSION_NOT_ACTIVE", false],
  ["INVALID_INPUT", false],
  ["NON_FINITE_LOSS", false],
  ["UNSPECIFIED", false],
])("an operation failed with %s", async (reason, retryable) => {
  const error = { code: `TRAINING_OPERATION_ERROR_CODE_${reason}`, message: "so it is" };
  const { session, requests } = await scriptedSession([PENDING, failed(error)]);
  expect(await rejection(session.optimStep())).toMatchObject({
    name: "OperationFailedError",
    code: `ERR_OPERATION_${reason}`,
    reason,
    retryable,
    operationId: "op-1",
    kind: "optim-step",
    message: `optim-step: operation op-1 failed with ${reason}: so it is`,
  });
  expect(requests.length).toBe(2);
});

test("a failure of an unknown kind, or without any details", async () => {
  const { session } = await scriptedSession([
    failed({ code: "NEW_REASON" }),
    failed({}),
    { ...PENDING, ...failed({}) },
  ]);
  expect(await rejection(session.optimStep())).toMatchObject({
    reason: "UNSPECIFIED",
    message: "optim-step: operation op-1 failed with NEW_REASON",
  });
  expect(await rejection(session.optimStep())).toMatchObject({ code: "ERR_OPERATION_UNSPECIFIED" });
});

test("a completed operation without output is an error, except for a custom pass", async () => {
  const empty = { id: "op-1", status: "TRAINING_OPERATION_STATUS_COMPLETED" };
  const { session } = await scriptedSession(Array(7).fill(empty), { wireFormat: "loss_inputs" });
  const gradients = SAMPLES.map(({ targets }) => targets.map(() => 0));
  const { operation } = await session.customForwardBackward(SAMPLES, gradients);
  expect(operation.kind).toBe("custom-forward-backward");
  const calls = [
    () => session.forward(SAMPLES),
    () => session.forwardBackward(SAMPLES, { type: "cross_entropy" }),
    () => session.optimStep(),
    () => session.weightsSync(),
    () => session.sample([[1]]),
    () => session.trainingCheckpoint(),
  ];
  for (const call of calls) {
    expect((await rejection(call())).message).toMatch(/^output: expected a value, got nothing/);
  }
});
