// Bodies in flight: bounded over all calls of a client.

import { describe, expect, test } from "vitest";
import { ByteBudget } from "../../src/client/budget.ts";
import { Call } from "../../src/client/call.ts";
import { completed, rejection, SESSION, serve, testClient, wait } from "./server.ts";

const callWith = (signal?: AbortSignal) => new Call("test", Number.POSITIVE_INFINITY, signal);

describe("a budget", () => {
  test("lets in what fits, the rest in order, and what is too large alone", async () => {
    const budget = new ByteBudget(100);
    const order: string[] = [];
    const take = async (name: string, bytes: number) => {
      const share = await budget.take(bytes, callWith());
      order.push(name);
      return share;
    };
    const first = await take("first", 60);
    const second = take("second", 50);
    const small = take("small", 10);
    const large = take("large", 500);
    (await budget.take(0, callWith())).release();
    await wait(5);
    // A small one does not overtake.
    expect(order).toEqual(["first"]);
    first.release();
    await Promise.all([second, small]);
    expect(order).toEqual(["first", "second", "small"]);
    (await second).release();
    await wait(5);
    expect(order.length).toBe(3);
    (await small).release();
    (await large).release();
    await take("last", 100);
    expect(order).toEqual(["first", "second", "small", "large", "last"]);
  });

  test("goes by what a body really has, once that is known", async () => {
    const budget = new ByteBudget(100);
    const first = await budget.take(90, callWith());
    const second = budget.take(50, callWith());
    first.resize(50);
    (await second).release();
    first.release();
    first.release();
    (await budget.take(100, callWith())).release();
  });

  test("forgets those who stop waiting", async () => {
    const budget = new ByteBudget(100);
    const first = await budget.take(90, callWith());
    const controller = new AbortController();
    const stopped = rejection(budget.take(90, callWith(controller.signal)));
    const next = budget.take(10, callWith());
    controller.abort();
    await stopped;
    (await next).release();
    first.release();
    (await budget.take(100, callWith())).release();
  });
});

test("large bodies of many calls go out one after the other", async () => {
  let open = 0;
  let most = 0;
  const server = await serve(async (request) => {
    if (!request.path.includes("/operations/")) return { ...SESSION, id: request.path.split("/").pop() };
    open++;
    most = Math.max(most, open);
    await wait(30);
    open--;
    return completed({ loss: 1 });
  });
  const tokens = new Int32Array(10_000);
  const samples = [{ tokens, targets: tokens, weights: new Float32Array(10_000).fill(1) }];
  const run = async (maxBytesInFlight: number) => {
    most = 0;
    const client = testClient(server, { maxBytesInFlight, wireFormat: "loss_inputs" });
    const sessions = await Promise.all([1, 2, 3, 4].map((id) => client.sessions.attach(`s-${id}`)));
    await Promise.all(sessions.map((session) => session.forwardBackward(samples, { type: "cross_entropy" })));
    return most;
  };
  expect(await run(100_000)).toBe(1);
  expect(await run(10_000_000)).toBe(4);
});
