// Everything that can go wrong between client and trainer, over real sockets: nothing is lost, nothing is done twice.

import { afterEach, expect, test, vi } from "vitest";
import type { Session } from "../../src/client/session.ts";
import {
  COMMON_FAULTS,
  type Fault,
  type FaultPlan,
  type FaultRequest,
  randomFaults,
} from "../../src/local/index.ts";
import { TrainingSession } from "../../src/local/session.ts";
import { rejection, wait } from "./server.ts";
import { clientOf, fingerprint, randomSamples, sessionOf, trainerWith } from "./trainer.ts";

const OPERATIONS = 500;
const RATE = 0.2;

afterEach(() => {
  vi.restoreAllMocks();
});

/** How often the trainer is given work from now on, by kind. */
function counts() {
  const { prototype } = TrainingSession;
  const spies = {
    scored: vi.spyOn(prototype, "forwardBackward"),
    custom: vi.spyOn(prototype, "customForwardBackward"),
    steps: vi.spyOn(prototype, "optimStep"),
    syncs: vi.spyOn(prototype, "weightsSync"),
    sampled: vi.spyOn(prototype, "sample"),
  };
  return () => Object.fromEntries(Object.entries(spies).map(([name, { mock }]) => [name, mock.calls.length]));
}

/** Five hundred operations, several of them always under way. */
async function train(session: Session): Promise<void> {
  for (let round = 0; round < OPERATIONS / 10; round++) {
    const samples = randomSamples(2, 12, round);
    const { logprobs } = await session.forward(samples);
    const pull = logprobs.map((row, index) =>
      row.map((logprob, t) => samples[index]!.weights[t]! * logprob * 1e-3),
    );
    const [first, , third] = await Promise.all([
      session.customForwardBackward(samples, pull),
      session.customForwardBackward(samples, pull),
      session.optimStep({ adam: { learningRate: 1e-3, gradClipNorm: 0 } }),
      session.forwardBackward(samples, { type: "cross_entropy" }),
      session.optimStep({ adam: { learningRate: 1e-3 } }),
      session.weightsSync(),
      session.sample([[1, 2, 3]], { maxTokens: 2, seed: round }),
      session.sample([[4, 5]], { maxTokens: 2, seed: round, promptLogprobs: true }),
      session.weightsSync(),
    ]);
    expect(first.operations.length).toBe(1);
    expect(third.step).toBe(round * 2 + 1);
  }
}

const EACH = OPERATIONS / 10;
const MADE = {
  scored: 2 * EACH,
  custom: 2 * EACH,
  steps: 2 * EACH,
  syncs: 2 * EACH,
  sampled: 2 * EACH,
};

test("500 operations with 20 % faults are each done once, and the weights are those of a run without, bit by bit", {
  timeout: 120_000,
}, async () => {
  const happened: Record<string, number> = {};
  const random = randomFaults(RATE, 5);
  const plan: FaultPlan = (request) => {
    const fault = planned(request, random);
    if (fault !== undefined) {
      const name = fault.kind === "status" ? String(fault.status) : fault.kind;
      happened[name] = (happened[name] ?? 0) + 1;
    }
    return fault;
  };
  // Every result takes the way through the storage, whose requests fail as often.
  const faulty = await trainerWith({ faults: plan, resultPayloadBytes: 0, pollHoldMs: 20 });
  const options = { requestTimeoutMs: 150, maxRetries: 12, timeoutMs: 60_000 };
  const session = await sessionOf(clientOf(faulty, options));
  let made = counts();
  await train(session);
  expect(made()).toEqual(MADE);
  vi.restoreAllMocks();

  const clean = await sessionOf(clientOf(await trainerWith()));
  made = counts();
  await train(clean);
  expect(made()).toEqual(MADE);

  expect(await fingerprint(session)).toEqual(await fingerprint(clean));
  expect((await session.info()).step).toBe(2 * EACH);
  for (const kind of [
    "latency",
    "429",
    "500",
    "502",
    "503",
    "reset",
    "resetAfterCommit",
    "drop",
    "truncate",
    "slowBody",
  ]) {
    expect(happened[kind], `${kind} in ${JSON.stringify(happened)}`).toBeGreaterThan(10);
  }
});

/** Creations have no key, so that they are not repeated after every failure: they are left alone here. */
const planned = (request: FaultRequest, random: FaultPlan) =>
  /\/(model-resources|training-sessions)$/.test(request.path) ? undefined : random(request);

/** Lets the first request to a path go wrong. */
function once(path: RegExp, ...faults: readonly Fault[]): FaultPlan {
  const left = [...faults];
  return (request) => (path.test(request.path) ? left.shift() : undefined);
}

test("a connection that is reset behind a commit: one operation, gradients not doubled", async () => {
  const faults = once(/custom-forward-backward$/, { kind: "resetAfterCommit" }, { kind: "resetAfterCommit" });
  const sent: FaultRequest[] = [];
  const trainer = await trainerWith({
    faults: (request) => {
      if (request.path.endsWith("custom-forward-backward")) sent.push(request);
      return faults(request);
    },
  });
  const made = counts();
  const run = async (session: Session) => {
    const samples = randomSamples(3, 20);
    await session.customForwardBackward(
      samples,
      samples.map(({ weights }) => Float32Array.from(weights)),
    );
    // A step that keeps the size of the gradient: a doubled one would show.
    await session.optimStep({ adam: { learningRate: 1, beta1: 0, eps: 1, gradClipNorm: 0 } });
    return fingerprint(session);
  };
  const first = await run(await sessionOf(clientOf(trainer)));
  expect(sent.length).toBe(3);
  expect(made().custom).toBe(1);
  expect(first).toEqual(await run(await sessionOf(clientOf(trainer))));
});

test("too large a body in HTML: the batch is split, and the trainer counts two", async () => {
  const faults = once(/custom-forward-backward$/, { kind: "status", status: 413 });
  const session = await sessionOf(clientOf(await trainerWith({ faults })));
  const made = counts();
  const samples = randomSamples(4, 20);
  const { operations } = await session.customForwardBackward(
    samples,
    samples.map(({ weights }) => weights),
  );
  expect(operations.length).toBe(2);
  expect(made().custom).toBe(2);
});

test("a key that was used for another batch is a conflict, at once", async () => {
  const session = await sessionOf(clientOf(await trainerWith(), { maxRetries: 5 }));
  const [one, other] = [randomSamples(1, 8, 1), randomSamples(1, 8, 2)];
  const idempotencyKey = "mine";
  const { operation } = await session.customForwardBackward(one, [one[0]!.weights], { idempotencyKey });
  const conflict = await rejection(
    session.customForwardBackward(other, [one[0]!.weights], { idempotencyKey }),
  );
  expect(conflict).toMatchObject({ code: "ERR_IDEMPOTENCY_CONFLICT", attempts: [] });
  const again = await session.customForwardBackward(one, [one[0]!.weights], { idempotencyKey });
  expect(again.operation).toEqual(operation);
});

test("a trainer that comes back is waited for", async () => {
  let away = true;
  const trainer = await trainerWith({ faults: () => (away ? { kind: "reset" } : undefined) });
  away = false;
  const session = await sessionOf(clientOf(trainer, { maxRetries: 7, retryDelayMs: 50 }));
  away = true;
  const step = session.weightsSync();
  await wait(100);
  away = false;
  expect((await step).weightsVersion).toBe(0);
});

test("the seed decides what goes wrong, the rate how often", () => {
  const run = (seed: number) => {
    const plan = randomFaults(0.3, seed);
    return Array.from({ length: 3000 }, (_, nth) => plan({ method: "GET", path: "/", nth }));
  };
  expect(run(1)).toEqual(run(1));
  expect(run(1)).not.toEqual(run(2));
  const faults = run(7).filter((fault) => fault !== undefined);
  expect(faults.length / 3000).toBeCloseTo(0.3, 1);
  expect(new Set(faults)).toEqual(new Set(COMMON_FAULTS));
});
