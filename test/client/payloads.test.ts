// The side channel for large bodies, against an API and a storage of two different hosts.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Call } from "../../src/client/call.ts";
import type { ClientOptions } from "../../src/client/client.ts";
import { PayloadChannel } from "../../src/client/payloads.ts";
import type { Sample } from "../../src/client/sample.ts";
import type { Sender } from "../../src/client/sender.ts";
import {
  completed,
  KEY,
  type Received,
  type Reply,
  rejection,
  reset,
  SESSION,
  serve,
  status,
  testClient,
} from "./server.ts";

const LIMIT = 524_288;

/** How the service's own client shortens a body, written down anew from its description. */
function shorten(value: unknown, most = 8): unknown {
  if (Array.isArray(value)) {
    return typeof value[0] === "number" ? value.slice(0, most) : value.map((item) => shorten(item, most));
  }
  if (typeof value !== "object" || value === null) return value;
  const dropped = ["shape", "sparse_crow_indices", "sparse_col_indices"];
  const members = Object.entries(value).filter(([name]) => !dropped.includes(name));
  return Object.fromEntries(members.map(([name, member]) => [name, shorten(member, most)]));
}

interface Script {
  /** Answers of the operation endpoint; completed by default. */
  readonly operations?: readonly Reply[];
  readonly puts?: readonly Reply[];
  readonly gets?: readonly Reply[];
  readonly urls?: readonly Reply[];
}

async function channel(script: Script, options: ClientOptions = {}) {
  const puts = [...(script.puts ?? [])];
  const gets = [...(script.gets ?? [])];
  const storage = await serve(({ method }) =>
    method === "PUT" ? (puts.shift() ?? status(200, "")) : (gets.shift() ?? status(404, "")),
  );
  let urls = 0;
  const posts: Received[] = [];
  const server = await serve((request) => {
    if (request.path.endsWith("/payloads/upload-url")) {
      const nth = urls++;
      const signed = `${storage.url}/bucket/up?X-Signature=secret-${nth}`;
      return script.urls?.[nth] ?? { payload_id: `p-${nth}`, upload_url: signed };
    }
    if (request.path.endsWith("/download-url")) {
      return { download_url: `${storage.url}/bucket/down?X-Signature=secret` };
    }
    if (!request.path.includes("/operations/")) return SESSION;
    posts.push(request);
    return script.operations?.[posts.length - 1] ?? completed({ loss: 1 });
  });
  const client = testClient(server, { wireFormat: "loss_fn_inputs", ...options });
  return { session: await client.sessions.attach("s-1"), storage, server, posts };
}

/** One sample whose body has so many bytes more than an empty key gives. */
const padded = (bytes: number): Sample[] => [
  { tokens: [1, 2, 3], targets: [2, 3, 4], weights: [0, 1, 1], routedExpertsKey: "k".repeat(bytes) },
];
const ROW = 60_000;
const large: Sample = {
  tokens: new Int32Array(ROW).fill(1234),
  targets: new Int32Array(ROW).fill(2345),
  weights: new Float32Array(ROW).fill(1),
};
const gradientsOf = (samples: readonly Sample[]) =>
  samples.map(({ tokens }) => new Float32Array(tokens.length).fill(-0.01234567));

describe("requests", () => {
  test("up to 524,288 bytes stay inline, one more goes through the storage", async () => {
    const { session, posts, storage } = await channel({});
    const step = (bytes: number) => session.forwardBackward(padded(bytes), { type: "cross_entropy" });
    await step(0);
    const empty = Buffer.byteLength(posts[0]!.body);
    await step(LIMIT - empty);
    expect(Buffer.byteLength(posts[1]!.body)).toBe(LIMIT);
    expect(storage.requests).toEqual([]);
    await step(LIMIT - empty + 1);
    expect(storage.requests.map(({ method }) => method)).toEqual(["PUT"]);
    expect(Buffer.byteLength(storage.requests[0]!.body)).toBe(LIMIT + 1);
  });

  test("the upload holds all but the flags, the request its shortened form, the flags and the id", async () => {
    const { session, posts, storage } = await channel({
      operations: [
        completed({
          loss: 1,
          loss_fn_outputs: [{ tensors: { logprobs: { data: new Array(ROW).fill(-1) } } }],
        }),
        completed({}),
      ],
    });
    await session.forward([large]);
    const samples = [large, { ...large, routedExpertsKey: "kept" }];
    await session.customForwardBackward(samples, gradientsOf(samples));
    const [scored, custom] = storage.requests.map(({ body }) => JSON.parse(body));
    expect(Object.keys(scored)).toEqual(["loss", "samples"]);
    expect(Object.keys(custom)).toEqual(["samples", "gradients"]);
    expect(scored.samples[0].model_input.chunks[0].encoded_text.tokens.length).toBe(ROW);
    expect(custom.gradients[1].data.length).toBe(ROW);
    expect(JSON.parse(posts[0]!.body)).toEqual({
      ...(shorten(scored) as object),
      forward_only: true,
      return_loss_fn_outputs: true,
      payload_id: "p-0",
    });
    expect(JSON.parse(posts[1]!.body)).toEqual({ ...(shorten(custom) as object), payload_id: "p-1" });
  });

  test("prepared samples that go out in parts are uploaded part by part, each with its own shortened form", async () => {
    const samples = [1, 2, 3].map((token) => ({ ...large, tokens: new Int32Array(ROW).fill(token) }));
    const { session, posts, storage } = await channel({}, { payloads: "upload", maxChunkSamples: 2 });
    const prepared = await session.prepareSamples(samples);
    const { operations } = await session.customForwardBackward(prepared, gradientsOf(samples));
    expect(operations.length).toBe(2);
    const uploads = storage.requests.map(({ body }) => JSON.parse(body));
    const firstTokens = ({ samples }: { samples: { model_input: { chunks: object[] } }[] }) =>
      samples.map(({ model_input }) => JSON.stringify(model_input.chunks[0]).match(/\d+/)![0]);
    expect(uploads.map(firstTokens)).toEqual([["1", "2"], ["3"]]);
    for (const [nth, { body }] of posts.entries()) {
      expect(JSON.parse(body)).toEqual({ ...(shorten(uploads[nth]) as object), payload_id: `p-${nth}` });
    }
  });

  test("the storage sees neither the key nor the caller's headers", async () => {
    const { session, storage } = await channel({}, { headers: { "x-secret": "s" } });
    await session.customForwardBackward([large], gradientsOf([large]));
    const [put] = storage.requests;
    expect(put!.headers.authorization).toBeUndefined();
    expect(put!.headers["x-secret"]).toBeUndefined();
    expect(put!.headers["idempotency-key"]).toBeUndefined();
    expect(JSON.stringify(put!.headers)).not.toContain(KEY);
    expect(put!.headers["content-length"]).toBe(String(put!.body.length));
  });

  test("prompts go the same way", async () => {
    const { session, posts, storage } = await channel({
      operations: [completed({ results: [{ sequences: [] }] })],
    });
    await session.sample([new Int32Array(300_000).fill(7)], { maxTokens: 3, stop: ["a", "b"] });
    expect(JSON.parse(posts[0]!.body)).toEqual({
      model_inputs: [{ chunks: [{ encoded_text: { tokens: new Array(8).fill(7) } }] }],
      sampling_params: { max_tokens: 3, stop: ["a", "b"] },
      payload_id: "p-0",
    });
    expect(JSON.parse(storage.requests[0]!.body).model_inputs[0].chunks[0].encoded_text.tokens.length).toBe(
      300_000,
    );
  });

  test("a body over what storage takes is refused before anything is sent", async () => {
    const upload = new PayloadChannel({} as Sender, "/s-1").upload(
      { chunks: [], bytes: 5_363_466_241 },
      new Call("custom-forward-backward", 1000, undefined),
      "auto",
    );
    expect((await rejection(upload)).message).toMatch(
      /expected a body of at most 5363466240 bytes, got 5363466241/,
    );
  });

  test("every body is shortened as the service's own client does it", async () => {
    const row = fc.array(fc.integer({ min: 0, max: 99_999 }), { minLength: 1, maxLength: 20 });
    await fc.assert(
      fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 4 }), fc.boolean(), async (rows, keyed) => {
        const { session, posts, storage } = await channel({});
        const filler: Sample = { ...large, ...(keyed && { routedExpertsKey: "kéy" }) };
        const samples = [
          ...rows.map((tokens) => ({ tokens, targets: tokens, weights: tokens.map(() => 0.5) })),
          filler,
        ];
        await session.forwardBackward(samples, { type: "cross_entropy" });
        const { payload_id, ...inline } = JSON.parse(posts[0]!.body);
        expect(inline).toEqual(shorten(JSON.parse(storage.requests[0]!.body)));
        expect(payload_id).toBe("p-0");
      }),
      { numRuns: 15 },
    );
  });

  test("in the other format inline routing loses its shape with the rest", async () => {
    const experts = { data: new Uint16Array(6), shape: [3, 1, 2] as const };
    const { session, posts } = await channel({}, { wireFormat: "loss_inputs" });
    const samples = [
      { tokens: [1, 2, 3], targets: [2, 3, 4], weights: [0, 1, 1], routedExperts: experts },
      large,
    ];
    await session.forwardBackward(samples, { type: "cross_entropy" });
    expect(JSON.parse(posts[0]!.body).samples[0].loss_inputs.routed_experts).toEqual({
      data: "AAAAAAAAAAAAAAAA",
    });
  });
});

describe("failures", () => {
  test("uploads are repeated with the same bytes; the operation is sent once", async () => {
    const { session, posts, storage } = await channel(
      { puts: [reset, status(503, "<Error/>"), status(200, "")] },
      { maxRetries: 5 },
    );
    await session.customForwardBackward([large], gradientsOf([large]));
    expect(storage.requests.length).toBe(3);
    expect(new Set(storage.requests.map(({ body }) => body)).size).toBe(1);
    expect(posts.length).toBe(1);
  });

  test("an address that has expired is asked for anew", async () => {
    const { session, posts, storage } = await channel({
      puts: [status(403, "<Error>Request has expired</Error>")],
    });
    await session.customForwardBackward([large], gradientsOf([large]));
    expect(storage.requests.map(({ path }) => path)).toEqual([
      "/bucket/up?X-Signature=secret-0",
      "/bucket/up?X-Signature=secret-1",
    ]);
    expect(JSON.parse(posts[0]!.body).payload_id).toBe("p-1");
  });

  test("the permission in an address is in no error", async () => {
    const { session } = await channel({ puts: [reset, status(500)] });
    for (let nth = 0; nth < 2; nth++) {
      const error = await rejection(session.customForwardBackward([large], gradientsOf([large])));
      expect(error.message).toContain("/bucket/up");
      expect(`${error.message}${error.stack}${JSON.stringify(error)}`).not.toContain("X-Signature");
    }
  });
});

describe("where the service has no such channel", () => {
  const missing = [status(404), status(404), status(404)];
  const three = [large, large, large];

  test("batches are split by size, and the channel is asked for once", async () => {
    const { session, server, posts } = await channel({ urls: missing });
    await session.customForwardBackward(three, gradientsOf(three));
    await session.customForwardBackward(three, gradientsOf(three));
    expect(posts.length).toBe(6);
    expect(posts.every(({ body }) => JSON.parse(body).samples.length === 1)).toBe(true);
    expect(server.requests.filter(({ path }) => path.endsWith("upload-url")).length).toBe(1);
  });

  test("what cannot be split is sent as it is", async () => {
    const { session, posts } = await channel({ urls: missing });
    await session.forwardBackward(three, { type: "cross_entropy" });
    expect(posts[0]!.body.length).toBeGreaterThan(LIMIT);
  });

  test('with "upload" it is an error', async () => {
    const { session, posts } = await channel({ urls: missing }, { payloads: "upload" });
    expect(await rejection(session.forward(three))).toMatchObject({ code: "ERR_NOT_FOUND" });
    expect(posts).toEqual([]);
  });

  test('"inline" never asks for it', async () => {
    const { session, server, posts } = await channel({}, { payloads: "inline" });
    await session.customForwardBackward(three, gradientsOf(three));
    expect(posts.length).toBe(3);
    expect(server.requests.filter(({ path }) => path.includes("payloads"))).toEqual([]);
  });
});

describe("results", () => {
  const scored = { loss_fn_outputs: [{ tensors: { logprobs: { data: [0, -1, -2], dtype: "float32" } } }] };
  const apart = completed({ loss: 3, metrics: { m: 1 }, loss_fn_outputs: [], payload_id: "r/1" });
  const forward = async (gets: readonly Reply[], options: ClientOptions = {}) => {
    const { session, storage, server } = await channel({ operations: [apart], gets }, options);
    return { result: session.forward(padded(0)), storage, server };
  };

  test("are merged, what was downloaded wins, and the key stays here", async () => {
    const { result, storage, server } = await forward([{ ...scored, loss: 4 }]);
    expect(await result).toMatchObject({
      loss: 4,
      metrics: { m: 1 },
      logprobs: [new Float32Array([0, -1, -2])],
    });
    expect(storage.requests[0]!.headers.authorization).toBeUndefined();
    const asked = server.requests.find(({ path }) => path.endsWith("/download-url"));
    expect(asked).toMatchObject({
      method: "POST",
      path: "/v1/rl/training-sessions/s-1/payloads/r%2F1/download-url",
    });
    expect(asked!.headers.authorization).toBe(`Bearer ${KEY}`);
  });

  test("are asked for again after failures and with a new address when theirs has expired", async () => {
    const gets = [status(403, "<Error/>"), status(500), reset, scored];
    const { result, server } = await forward(gets, { maxRetries: 3 });
    expect((await result).logprobs.length).toBe(1);
    expect(server.requests.filter(({ path }) => path.endsWith("/download-url")).length).toBe(2);
  });

  test.each<[string, Reply]>([
    ["an array", [] as object],
    ["no JSON", status(200, "{")],
  ])("that are %s are refused", async (_, body) => {
    const { result } = await forward([body]);
    const error = await rejection(result);
    expect(error.code).toBe("ERR_RESPONSE");
    expect(error.message).toContain("payload r%2F1");
  });
});
