// Many calls at one time: nothing is lost, sockets and memory stay bounded.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { completed, PENDING, type Received, SESSION, serve, testClient } from "./server.ts";

const POLLS_EACH = 4;
const SOCKETS = 16;

/** Operations that are done at their fourth look; each gives its own number. */
async function manyOperations() {
  const looks = new Map<string, number>();
  let made = 0;
  const server = await serve((request: Received) => {
    const [, kind, id] = request.path.match(/operations\/([a-z-]+)\/?(.*)$/) ?? [];
    if (kind === undefined) return { ...SESSION, id: request.path.split("/").pop() };
    if (request.method === "POST") return { ...PENDING, id: `op-${made++}` };
    const seen = (looks.get(id!) ?? 0) + 1;
    looks.set(id!, seen);
    if (seen < POLLS_EACH) return { ...PENDING, id };
    const number = Number(id!.slice(3));
    const output =
      kind === "sample"
        ? { results: [{ sequences: [{ tokens: [number], stop_reason: "STOP_REASON_STOP" }] }] }
        : { step: number, weights_version: number };
    return { ...completed(output), id };
  });
  const client = testClient(server, { maxConnections: SOCKETS, maxRetries: 2 });
  return { server, client, session: await client.sessions.attach("s-1") };
}

test("a thousand operations asked for at one time, over sixteen sockets, in bounded memory", {
  timeout: 60_000,
}, async () => {
  const { server, session } = await manyOperations();
  const round = async () => {
    const results = await Promise.all(Array.from({ length: 1000 }, () => session.sample([[1]])));
    const numbers = results.map(({ results: [first], operation }) => {
      expect(operation.id).toBe(`op-${first!.sequences[0]!.tokens[0]}`);
      return first!.sequences[0]!.tokens[0];
    });
    expect(new Set(numbers).size).toBe(1000);
    server.requests.length = 0;
  };
  await round();
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  collect();
  const before = process.memoryUsage();
  for (let nth = 0; nth < 4; nth++) await round();
  collect();
  const after = process.memoryUsage();
  expect(server.sockets()).toBeLessThanOrEqual(SOCKETS);
  expect(after.heapUsed - before.heapUsed).toBeLessThan(5e6);
  expect(after.external - before.external).toBeLessThan(5e6);
});

test("two hundred small operations of many sessions side by side", async () => {
  const { server, client } = await manyOperations();
  const sessions = await Promise.all(
    Array.from({ length: 20 }, (_, nth) => client.sessions.attach(`s-${nth}`)),
  );
  const results = await Promise.all(
    Array.from({ length: 200 }, async (_, nth) => {
      const { step, operation } = await sessions[nth % 20]!.optimStep();
      expect(operation.id).toBe(`op-${step}`);
      return step;
    }),
  );
  expect(new Set(results).size).toBe(200);
  expect(server.sockets()).toBeLessThanOrEqual(SOCKETS);
});
