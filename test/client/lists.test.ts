// Lists of the API: pages, filters, and where they end.

import { describe, expect, test } from "vitest";
import { rejection, SESSION, serve, status, testClient } from "./server.ts";

const item = (id: string) => ({ ...SESSION, id });

/** Serves five sessions, two a page. */
async function pages() {
  const all = ["a", "b", "c", "d", "e"];
  const server = await serve(({ path }) => {
    const after = new URL(path, "http://x").searchParams.get("after");
    const begin = after === null ? 0 : all.indexOf(after) + 1;
    const ids = all.slice(begin, begin + 2);
    const more = begin + 2 < all.length;
    return { data: ids.map(item), meta: { has_more: more, limit: 2, next_cursor: more ? ids.at(-1) : "" } };
  });
  return { server, client: testClient(server, { maxRetries: 1 }) };
}

describe("a list", () => {
  test("gives all items, asking for a page when it is needed", async () => {
    const { server, client } = await pages();
    const ids: string[] = [];
    for await (const { id } of client.sessions.list()) {
      ids.push(id);
      expect(server.requests.length).toBe(Math.ceil(ids.length / 2));
    }
    expect(ids).toEqual(["a", "b", "c", "d", "e"]);
    expect(server.requests.map(({ path }) => path)).toEqual([
      "/v1/rl/training-sessions",
      "/v1/rl/training-sessions?after=b",
      "/v1/rl/training-sessions?after=d",
    ]);
  });

  test("gives pages with their cursors, from one on", async () => {
    const { client } = await pages();
    const seen: unknown[] = [];
    for await (const { items, nextCursor } of client.sessions.list({ after: "b" }).pages()) {
      seen.push([items.map(({ id }) => id), nextCursor]);
    }
    expect(seen).toEqual([
      [["c", "d"], "d"],
      [["e"], undefined],
    ]);
  });

  test("stops asking when nobody goes on, and may be read again", async () => {
    const { server, client } = await pages();
    const list = client.sessions.list();
    for await (const { id } of list) if (id === "a") break;
    expect(server.requests.length).toBe(1);
    let count = 0;
    for await (const _ of list) count++;
    expect(count).toBe(5);
  });

  test.each([
    ["without meta", {}],
    ["with a cursor that stays the same", { meta: { has_more: true, next_cursor: "z" } }],
    ["with a cursor but no more", { meta: { has_more: false, next_cursor: "y" } }],
  ])("%s comes to an end", async (_, more) => {
    const server = await serve(() => ({ data: [item("a")], ...more }));
    let count = 0;
    for await (const _ of testClient(server).sessions.list()) count++;
    expect(count).toBeLessThanOrEqual(2);
  });

  test("goes on after a failure of one page", async () => {
    let failed = false;
    const { server, client } = await pages();
    const hiccup = await serve(async (request) => {
      if (request.path.includes("after=b") && !failed) {
        failed = true;
        return status(503);
      }
      return (await fetch(`${server.url}${request.path}`)).json() as Promise<object>;
    });
    let count = 0;
    for await (const _ of testClient(hiccup, { maxRetries: 1 }).sessions.list()) count++;
    expect(count).toBe(5);
    expect(client.baseURL).toContain(server.url);
  });

  test("is stopped by its signal", async () => {
    const { client } = await pages();
    const controller = new AbortController();
    const read = async () => {
      for await (const _ of client.sessions.list({ signal: controller.signal })) controller.abort();
    };
    expect((await rejection(read())).name).toBe("AbortError");
  });
});

describe("filters", () => {
  const queryOf = async (ask: (client: ReturnType<typeof testClient>) => AsyncIterable<unknown>) => {
    const server = await serve(() => ({ data: [], meta: {} }));
    for await (const _ of ask(testClient(server)));
    return decodeURIComponent(server.requests[0]!.path);
  };

  test("of sessions, resources and checkpoints", async () => {
    expect(
      await queryOf((c) =>
        c.sessions.list({ status: ["RUNNING", "ERROR"], modelResourcesId: "r", createdBy: "me", limit: 5 }),
      ),
    ).toBe(
      "/v1/rl/training-sessions?status=TRAINING_SESSION_STATUS_RUNNING,TRAINING_SESSION_STATUS_ERROR&model_resources_id=r&created_by=me&limit=5",
    );
    expect(await queryOf((c) => c.modelResources.list({ status: ["READY"] }))).toBe(
      "/v1/rl/model-resources?status=MODEL_RESOURCES_STATUS_READY",
    );
    expect(
      await queryOf((c) => c.checkpoints.list({ type: "training", sessionId: "s", baseModel: "m/x" })),
    ).toBe("/v1/rl/checkpoints?type=CHECKPOINT_TYPE_TRAINING&session_id=s&base_model=m/x");
  });

  test("that nobody knows, or out of range, are refused at once", async () => {
    const { client } = await pages();
    expect(() => client.sessions.list({ state: [] } as never)).toThrow(
      /^sessions\.list\.state: .*did you mean status\?/,
    );
    expect(() => client.checkpoints.list({ limit: 101 })).toThrow(/from 1 to 100/);
    expect(() => client.modelResources.list({ status: ["RUNNING" as never] })).toThrow(
      /status\[0\]: expected/,
    );
  });
});
