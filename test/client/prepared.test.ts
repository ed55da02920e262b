// Samples that are encoded once: for both passes of a step, for repeats, and ahead of it.

import { describe, expect, test } from "vitest";
import { ByteBudget } from "../../src/client/budget.ts";
import type { Sample } from "../../src/client/sample.ts";
import { defineLoss } from "../../src/loss/define.ts";
import { computeCustomForwardBackward } from "../../src/training/custom-loss.ts";
import { useEngine } from "../engine/helpers.ts";
import {
  completed,
  gradientsFor,
  type Received,
  type Reply,
  rejection,
  SAMPLES,
  SESSION,
  scriptedSession,
  serve,
  status,
  testClient,
} from "./server.ts";

const held = useEngine();

const nll = defineLoss({ loss: ({ logprobs }) => logprobs.neg().mean() });
const SCORES = completed({
  loss: 1,
  loss_fn_outputs: SAMPLES.map(({ tokens }) => ({ tensors: { logprobs: { data: tokens.map(() => -1) } } })),
});

/** The member `samples` of a body, as text. */
const samplesOf = ({ body }: Received) => /"samples":(\[.*?\])(?:,"gradients"|\}$)/s.exec(body)![1]!;
const copy = (): Sample[] => SAMPLES.map((sample) => ({ ...sample, weights: [...sample.weights] }));

/** A session whose every pass is answered; `before` is called when a scoring pass has come. */
async function answering(before: () => void = () => {}, options = {}) {
  const bodies: Received[] = [];
  const server = await serve((request) => {
    if (!request.path.includes("operations")) return SESSION;
    bodies.push(request);
    if (!request.path.endsWith("/forward-backward")) return completed({});
    before();
    return SCORES;
  });
  const client = testClient(server, options);
  return { client, session: await client.sessions.attach("s-1"), bodies };
}

describe("a custom step", () => {
  test("sends the text of the scoring pass again with the gradients", async () => {
    const samples = copy();
    const { session, bodies } = await answering(() => {
      // Not what a caller should do; it tells whether the text is made anew.
      (samples[0]!.weights as number[])[2] = 0.25;
    });
    await computeCustomForwardBackward(session, samples, nll, { engine: held.engine });
    expect(JSON.parse(samplesOf(bodies[0]!))).toHaveLength(2);
    expect(samplesOf(bodies[1]!)).toBe(samplesOf(bodies[0]!));
  });

  test("writes them twice where there is no room to keep them", async () => {
    const { client, session, bodies } = await answering(undefined, { maxBytesInFlight: 100 });
    const sessions = [session, await client.sessions.attach("s-2"), await client.sessions.attach("s-3")];
    const steps = sessions.map((each) =>
      computeCustomForwardBackward(each, copy(), nll, { engine: held.engine }),
    );
    await Promise.all(steps);
    expect(new Set(bodies.map(samplesOf)).size).toBe(1);
    expect(bodies.length).toBe(6);
  });

  test("gives the room back that it took for samples which no format carries", async () => {
    const samples = copy();
    const { session, bodies } = await answering(
      () => {
        (samples[0]!.weights as number[])[2] = 0.25;
      },
      { maxBytesInFlight: 10, wireFormat: "loss_inputs" },
    );
    const keyed = samples.map((sample) => ({ ...sample, routedExpertsKey: "key" }));
    expect(
      await rejection(computeCustomForwardBackward(session, keyed, nll, { engine: held.engine })),
    ).toMatchObject({ path: "samples[0].routedExpertsKey", sample: 0 });
    await computeCustomForwardBackward(session, samples, nll, { engine: held.engine });
    // It was kept.
    expect(samplesOf(bodies[1]!)).toBe(samplesOf(bodies[0]!));
  });

  test("leaves the gradients of the step before as they were", async () => {
    const { session } = await answering();
    const step = async (scale: number) => {
      const loss = defineLoss({ loss: ({ logprobs }) => logprobs.neg().mean().mul(scale) });
      return (await computeCustomForwardBackward(session, copy(), loss, { engine: held.engine })).gradients;
    };
    const first = await step(1);
    const rows = [...first].map((row) => [...row]);
    expect([...(await step(2))].map((row) => [...row])).toEqual(
      rows.map((row) => row.map((value) => 2 * value)),
    );
    expect([...first].map((row) => [...row])).toEqual(rows);
  });

  test("has room to keep what fits, or one text alone", () => {
    const budget = new ByteBudget(100);
    const first = budget.keep(500)!;
    expect(budget.keep(1)).toBeUndefined();
    first();
    first();
    const both = [budget.keep(60)!, budget.keep(40)!];
    expect(budget.keep(1)).toBeUndefined();
    for (const giveBack of both) giveBack();
    expect(budget.keep(100)).toBeDefined();
  });
});

test.each([status(503), status(429)])(
  "a repeat sends the same bytes, although the samples have changed: case %#",
  async (failure) => {
    const samples = copy();
    const { session, requests } = await scriptedSession(
      [
        (response) => {
          (samples[1]!.weights as number[])[1] = 7;
          (failure as (response: unknown) => void)(response);
        },
        completed({}),
      ],
      { maxRetries: 1 },
    );
    await session.customForwardBackward(samples, gradientsFor(SAMPLES, 0.5));
    expect(requests.length).toBe(2);
    expect(requests[1]!.body).toBe(requests[0]!.body);
  },
);

describe("prepared samples", () => {
  test("serve every pass, and several of one kind", async () => {
    const samples = copy();
    const { session, bodies } = await answering();
    const prepared = await session.prepareSamples(samples);
    expect(prepared.samples).toBe(samples);
    (samples[0]!.weights as number[])[2] = 0.25;
    const { logprobs } = await session.forward(prepared);
    expect(logprobs.map((row) => [...row])).toEqual([
      [-1, -1, -1],
      [-1, -1],
    ]);
    const { gradients } = await computeCustomForwardBackward(session, prepared, nll, {
      engine: held.engine,
    });
    await session.customForwardBackward(prepared, gradients);
    expect(bodies.length).toBe(4);
    expect(new Set(bodies.map(samplesOf)).size).toBe(1);
    expect(samplesOf(bodies[0]!)).toContain('"weights":{"data":[0,1,1]');
    prepared[Symbol.dispose]();
    expect(await rejection(session.forward(prepared))).toMatchObject({
      code: "ERR_INPUT",
      path: "samples",
      message: expect.stringContaining("not disposed"),
    });
  });

  test("bring the rows of other losses, whose text is not the same", async () => {
    const rows = { logprobs: [0, -1, -1], advantages: [0, 1, 1] };
    const samples = [{ ...SAMPLES[0]!, ...rows }];
    const { session, bodies } = await answering();
    const prepared = await session.prepareSamples(samples);
    await session.forwardBackward(prepared, { type: "ppo" });
    expect(bodies[0]!.body).toContain('"advantages":{"data":[0,1,1]');
    const without = await session.prepareSamples(SAMPLES);
    expect(await rejection(session.forwardBackward(without, { type: "ppo" }))).toMatchObject({
      path: "samples[0].advantages",
    });
  });

  test("are written again where the service takes the other format", async () => {
    const refused = status(422, { error: { message: "loss_inputs: unknown", param: "loss_inputs" } });
    const { session, requests } = await scriptedSession([refused, SCORES, SCORES]);
    const prepared = await session.prepareSamples(SAMPLES);
    await session.forward(prepared);
    await session.forward(prepared);
    expect(requests.map(({ body }) => /loss(_fn)?_inputs/.exec(body)![0])).toEqual([
      "loss_inputs",
      "loss_fn_inputs",
      "loss_fn_inputs",
    ]);
  });

  test("are refused when they are prepared, with the place", async () => {
    const { session, requests } = await scriptedSession([]);
    const bad = copy();
    (bad[1]!.weights as number[])[1] = -1;
    expect(await rejection(session.prepareSamples(bad))).toMatchObject({
      path: "samples[1].weights",
      sample: 1,
      position: 1,
    });
    expect(await rejection(session.prepareSamples([]))).toMatchObject({ path: "samples" });
    expect(await rejection(session.prepareSamples([{ ...SAMPLES[0]!, targets: [1] }]))).toMatchObject({
      path: "samples[0].targets",
    });
    expect(requests).toEqual([]);
  });

  test("whose call is under way when they are disposed are sent again as they were", async () => {
    const length = 60_000;
    const of = (token: number): Sample => {
      const row = new Int32Array(length).fill(token);
      return { tokens: row, targets: row, weights: new Float32Array(length).fill(1) };
    };
    const gradients = [new Float32Array(length).fill(0.25)];
    let refuse = () => {};
    const first: Reply = (response) => {
      refuse = () => status(503)(response);
    };
    const { session, requests } = await scriptedSession([first, completed({})], {
      maxRetries: 1,
      payloads: "inline",
      maxChunkBytes: Infinity,
    });
    const prepared = await session.prepareSamples([of(111_111)]);
    const call = session.customForwardBackward(prepared, gradients);
    await expect.poll(() => requests.length).toBe(1);
    prepared[Symbol.dispose]();
    // Memory that was given back would be theirs.
    for (const token of [222_222, 333_333]) await session.prepareSamples([of(token)]);
    refuse();
    await call;
    expect(requests[1]!.body).toBe(requests[0]!.body);
  });

  test("that are disposed before they are written are named", async () => {
    const { session, requests } = await scriptedSession([
      status(422, { error: { message: "loss_inputs: unknown", param: "loss_inputs" } }),
    ]);
    const row = Array<number>(2_000_000).fill(7);
    const prepared = await session.prepareSamples([{ tokens: row, targets: row, weights: row }]);
    const call = session.forward(prepared);
    await expect.poll(() => requests.length, { interval: 1 }).toBe(1);
    // The other format is still to be written.
    await new Promise((resolve) => setTimeout(resolve, 10));
    prepared[Symbol.dispose]();
    expect(await rejection(call)).toMatchObject({ code: "ERR_INPUT", path: "samples" });
  });

  test("stop with their signal", async () => {
    const { session } = await scriptedSession([]);
    const row = Array<number>(3_000_000).fill(7);
    const controller = new AbortController();
    const call = session.prepareSamples([{ tokens: row, targets: row, weights: row }], {
      signal: controller.signal,
    });
    setImmediate(() => controller.abort());
    expect(await rejection(call)).toMatchObject({ code: "ERR_ABORTED" });
  });
});
