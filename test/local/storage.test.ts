// Payloads and checkpoint files: addresses that are permissions, uploads that operations name, results that travel apart.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, Api, CROSS_ENTROPY, forward, open, prompt, rowOf, typed } from "./api.ts";

let api: Api;
let session: string;
beforeAll(async () => {
  api = await Api.start();
  session = await api.session();
});
afterAll(() => api.trainer.close());

const samples = [open(rowOf("The lamp burns all night.")), typed(rowOf("Rain on the roof."))];

const uploadURL = (of = session) => api.ok("POST", `/v1/rl/training-sessions/${of}/payloads/upload-url`);

/** A request to a signed address. */
async function stored(method: string, url: string, body?: string, headers: Record<string, string> = {}) {
  const response = await fetch(url, { method, headers, ...(body === undefined ? {} : { body }) });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

/** Uploads JSON and gives its id. */
async function upload(body: unknown, of = session): Promise<string> {
  const { payload_id, upload_url } = await uploadURL(of);
  const put = await stored("PUT", upload_url, typeof body === "string" ? body : JSON.stringify(body));
  expect(put.status).toBe(200);
  return payload_id;
}

const finish = async (kind: string, { body }: Answer) => (await api.finish(session, kind, body.id)).output;

describe("requests", () => {
  test("by an upload mean the same as inline ones, whatever stands in their inline arrays", async () => {
    const inline = await api.run(session, "forward-backward", forward(samples));
    const payload_id = await upload({ loss: CROSS_ENTROPY, samples });
    const flags = { forward_only: true, return_loss_fn_outputs: true };
    const short = { loss: CROSS_ENTROPY, samples: [], ...flags, payload_id };
    expect(await finish("forward-backward", await api.submit(session, "forward-backward", short))).toEqual(
      inline,
    );

    const asked = prompt("Hello", { max_tokens: 4, seed: 7 });
    const sampled = await api.run(session, "sample", asked);
    const id = await upload(asked);
    expect(await finish("sample", await api.submit(session, "sample", { payload_id: id }))).toEqual(sampled);

    const gradients = samples.map((_, i) => ({
      data: rowOf(["The lamp burns all night.", "Rain on the roof."][i]!).weights,
    }));
    const custom = await upload({ samples, gradients });
    expect(
      await finish(
        "custom-forward-backward",
        await api.submit(session, "custom-forward-backward", { payload_id: custom }),
      ),
    ).toEqual({});
  });

  test("are repeated by their key also with another upload of the same, and refused with one of something else", async () => {
    const body = (payload_id: string) => ({
      loss: CROSS_ENTROPY,
      samples: [],
      forward_only: true,
      payload_id,
    });
    const [one, same, other] = await Promise.all([
      upload({ loss: CROSS_ENTROPY, samples }),
      upload({ loss: CROSS_ENTROPY, samples }),
      upload({ loss: CROSS_ENTROPY, samples: samples.slice(1) }),
    ]);
    const key = randomUUID();
    const first = await api.submit(session, "forward-backward", body(one), key);
    expect((await api.submit(session, "forward-backward", body(same), key)).body.id).toBe(first.body.id);
    expect((await api.submit(session, "forward-backward", body(other), key)).status).toBe(409);
    const flagged = { ...body(one), forward_only: false };
    expect((await api.submit(session, "forward-backward", flagged, key)).status).toBe(409);
  });

  test.each<[string, () => Promise<unknown>, string]>([
    ["an upload that nobody made", async () => "nothing", "payload_id"],
    ["an upload of another session", async () => upload({}, await api.session()), "payload_id"],
    ["an upload that has not come", async () => (await uploadURL()).payload_id, "payload_id"],
    ["an id that is none", async () => 5, "payload_id"],
    ["an upload that is no object", () => upload("[1]"), ""],
    ["an upload without samples", () => upload({ loss: CROSS_ENTROPY }), "samples"],
  ])("by %s are refused", async (_, make, param) => {
    const payload_id = await make();
    const answer = await api.submit(session, "forward-backward", { loss: CROSS_ENTROPY, payload_id });
    expect(answer.status).toBe(422);
    if (param !== "") expect(answer.body.error.param).toBe(param);
  });

  test("by an upload that is no JSON, or of an operation without large parts, are refused", async () => {
    const payload_id = await upload("{");
    const broken = await api.submit(session, "forward-backward", { loss: CROSS_ENTROPY, payload_id });
    expect(broken).toMatchObject({ status: 400, body: { error: { code: "not_json" } } });
    const step = await api.submit(session, "optim-step", { payload_id });
    expect(step).toMatchObject({ status: 422, body: { error: { param: "payload_id" } } });
  });
});

describe("results", () => {
  test("larger than the limit travel apart, small members stay", async () => {
    const own = await Api.start({ resultPayloadBytes: 200 });
    const id = await own.session();
    const apart = await own.run(id, "forward-backward", forward(samples));
    expect(apart).toEqual({
      loss: expect.any(Number),
      metrics: expect.any(Object),
      payload_id: expect.any(String),
    });
    const path = `/v1/rl/training-sessions/${id}/payloads/${apart.payload_id}/download-url`;
    const { download_url } = await own.ok("POST", path);
    const { text } = await stored("GET", download_url);
    const inline = await api.run(await api.session(), "forward-backward", forward(samples));
    expect({ ...apart, ...JSON.parse(text), payload_id: undefined }).toEqual({
      ...inline,
      payload_id: undefined,
    });
    // Scores that were not asked for leave nothing to send.
    const plain = await own.run(id, "forward-backward", { loss: CROSS_ENTROPY, samples, forward_only: true });
    expect(plain.payload_id).toBeUndefined();
    const other = await own.session();
    const foreign = await own.call(
      "POST",
      `/v1/rl/training-sessions/${other}/payloads/${apart.payload_id}/download-url`,
    );
    expect(foreign.status).toBe(404);
    await own.trainer.close();
  });
});

describe("addresses", () => {
  test("need no key and accept none", async () => {
    const { upload_url } = await uploadURL();
    const keyed = await stored("PUT", upload_url, "{}", { authorization: `Bearer ${api.trainer.apiKey}` });
    expect(keyed.status).toBe(400);
    expect(JSON.parse(keyed.text).error.code).toBe("two_permissions");
    expect((await stored("PUT", upload_url, "{}")).status).toBe(200);
  });

  test("are for one thing only, and nobody guesses one", async () => {
    const { upload_url } = await uploadURL();
    expect((await stored("GET", upload_url)).status).toBe(403);
    expect((await stored("PUT", `${api.trainer.url}/storage/nothing`, "{}")).status).toBe(403);
    expect((await stored("POST", upload_url, "{}")).status).toBe(404);
  });

  test("give ranges", async () => {
    const own = await Api.start({ resultPayloadBytes: 0 });
    const id = await own.session();
    const result = await own.run(id, "forward-backward", forward(samples));
    const path = `/v1/rl/training-sessions/${id}/payloads/${result.payload_id}/download-url`;
    const { download_url } = await own.ok("POST", path);
    const whole = await stored("GET", download_url);
    const part = await stored("GET", download_url, undefined, { range: "bytes=10-19" });
    expect(part).toMatchObject({ status: 206, text: whole.text.slice(10, 20) });
    expect(part.headers.get("content-range")).toBe(`bytes 10-19/${whole.text.length}`);
    const rest = await stored("GET", download_url, undefined, { range: "bytes=30-" });
    expect(rest.text).toBe(whole.text.slice(30));
    const beyond = await stored("GET", download_url, undefined, { range: "bytes=9999999-" });
    expect(beyond.status).toBe(416);
    await own.trainer.close();
  });
});

test("checkpoints are listed and files offered", async () => {
  const own = await api.session();
  await api.run(own, "training-checkpoint");
  const { checkpoint } = await api.run(own, "inference-checkpoint");
  const list = await api.ok("GET", `/v1/rl/checkpoints?session_id=${own}`);
  expect(list.data.map(({ type }: { type: string }) => type)).toEqual([
    "CHECKPOINT_TYPE_INFERENCE",
    "CHECKPOINT_TYPE_TRAINING",
  ]);
  expect(list.data[0]).toEqual(await api.ok("GET", `/v1/rl/checkpoints/${checkpoint.id}`));
  const count = async (query: string) =>
    (await api.ok("GET", `/v1/rl/checkpoints?session_id=${own}&${query}`)).data.length;
  expect(await count("type=CHECKPOINT_TYPE_TRAINING")).toBe(1);
  expect(await count("base_model=other")).toBe(0);
  const { data } = await api.ok(
    "GET",
    `/v1/rl/checkpoints/${checkpoint.id}/download?variant=CHECKPOINT_VARIANT_MERGED`,
  );
  expect(data).toEqual([
    { filename: "model.safetensors", size: expect.stringMatching(/^\d+$/), url: expect.any(String) },
  ]);
  const file = await fetch(data[0].url);
  expect((await file.arrayBuffer()).byteLength).toBe(Number(data[0].size));
  const training = list.data[1].id;
  for (const [path, status] of [
    [`${training}/download?variant=CHECKPOINT_VARIANT_MERGED`, 422],
    [`${checkpoint.id}/download?variant=CHECKPOINT_VARIANT_ADAPTER`, 422],
    [`${checkpoint.id}/download`, 422],
    [randomUUID(), 404],
  ] as const) {
    expect((await api.call("GET", `/v1/rl/checkpoints/${path}`)).status, path).toBe(status);
  }
});
