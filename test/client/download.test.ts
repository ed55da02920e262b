// Checkpoint files: streamed to disk, gone on with, verified.

import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { ClientOptions } from "../../src/client/client.ts";
import type { DownloadProgress } from "../../src/client/download.ts";
import { KEY, type Received, type Reply, rejection, serve, status, testClient } from "./server.ts";
import { clientOf, sessionOf, trainerWith } from "./trainer.ts";

const BYTES = randomBytes(300_000);

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "tokengrad-download-"));
  onTestFinished(() => rm(folder, { recursive: true }));
});

/** The file, or the range of it that was asked for. */
const whole: (request: Received) => Reply = (request) => (response) => {
  const from = Number(request.headers.range?.match(/^bytes=(\d+)-$/)?.[1] ?? 0);
  response.writeHead(from > 0 ? 206 : 200, { "content-length": BYTES.length - from });
  response.end(BYTES.subarray(from));
};

/** Sends so many bytes of what was asked for, then cuts the connection. */
const cutAfter =
  (bytes: number): ((request: Received) => Reply) =>
  (request) =>
  (response) => {
    const from = Number(request.headers.range?.match(/^bytes=(\d+)-$/)?.[1] ?? 0);
    response.writeHead(from > 0 ? 206 : 200, { "content-length": BYTES.length - from });
    response.write(BYTES.subarray(from, from + bytes), () => setTimeout(() => response.destroy(), 10));
  };

/** A checkpoint of one file behind a storage that answers as told, then with all of it. */
async function checkpointOf(
  answers: readonly ((request: Received) => Reply)[],
  file: { filename?: string; size?: number | string } = {},
  options: ClientOptions = {},
) {
  const left = [...answers];
  const storage = await serve((request) => (left.shift() ?? whole)(request));
  let asked = 0;
  const server = await serve(() => ({
    data: [
      {
        filename: "model.bin",
        size: String(BYTES.length),
        url: `${storage.url}/f?sig=secret-${asked++}`,
        ...file,
      },
    ],
  }));
  const { checkpoints } = testClient(server, { maxRetries: 3, ...options });
  const progress: DownloadProgress[] = [];
  const download = (more = {}) =>
    checkpoints.download("c-1", { folder, onProgress: (seen) => progress.push(seen), ...more });
  return { download, storage, server, progress };
}

describe("a download", () => {
  test("puts the file under its name, tells its progress, and keeps the key to itself", async () => {
    const { download, storage, server, progress } = await checkpointOf([]);
    expect(await download({ variant: "adapter" })).toEqual([join(folder, "model.bin")]);
    expect(await readFile(join(folder, "model.bin"))).toEqual(BYTES);
    expect(await readdir(folder)).toEqual(["model.bin"]);
    expect(server.requests[0]!.path).toBe(
      "/v1/rl/checkpoints/c-1/download?variant=CHECKPOINT_VARIANT_ADAPTER",
    );
    expect(JSON.stringify(storage.requests[0]!.headers)).not.toContain(KEY);
    expect(progress.at(-1)).toEqual({ file: "model.bin", bytes: BYTES.length, totalBytes: BYTES.length });
  });

  test("that is cut off goes on from where it was, as often as it comes on", async () => {
    const { download, storage } = await checkpointOf([
      cutAfter(50_000),
      cutAfter(40_000),
      () => status(503, ""),
      cutAfter(30_000),
      cutAfter(20_000),
      cutAfter(10_000),
    ]);
    await download();
    expect(await readFile(join(folder, "model.bin"))).toEqual(BYTES);
    expect(storage.requests.map(({ headers }) => headers.range)).toEqual([
      undefined,
      "bytes=50000-",
      "bytes=90000-",
      "bytes=90000-",
      "bytes=120000-",
      "bytes=140000-",
      "bytes=150000-",
    ]);
  });

  test("that stands still is given up and gone on with", async () => {
    const stalled: (request: Received) => Reply = () => (response) => {
      response.writeHead(200, { "content-length": BYTES.length });
      response.write(BYTES.subarray(0, 70_000));
    };
    const { download, storage } = await checkpointOf([stalled], {}, { requestTimeoutMs: 300 });
    await download();
    expect(storage.requests[1]!.headers.range).toBe("bytes=70000-");
    expect(await readFile(join(folder, "model.bin"))).toEqual(BYTES);
  });

  test("goes on with what an earlier call left", async () => {
    const { download, storage } = await checkpointOf([]);
    await writeFile(join(folder, "model.bin.part"), BYTES.subarray(0, 123_456));
    await download();
    expect(storage.requests[0]!.headers.range).toBe("bytes=123456-");
    expect(await readFile(join(folder, "model.bin"))).toEqual(BYTES);
  });

  test("begins anew where the storage knows no ranges", async () => {
    const { download } = await checkpointOf([
      () => (response) => {
        response.end(BYTES);
      },
    ]);
    await writeFile(join(folder, "model.bin.part"), "something else");
    await download();
    expect(await readFile(join(folder, "model.bin"))).toEqual(BYTES);
  });

  test("of a file that is there does nothing", async () => {
    const { download, storage, progress } = await checkpointOf([]);
    await writeFile(join(folder, "model.bin"), BYTES);
    await download();
    expect(storage.requests).toEqual([]);
    expect(progress).toEqual([{ file: "model.bin", bytes: BYTES.length, totalBytes: BYTES.length }]);
  });

  test("whose address has expired asks for a new one", async () => {
    const { download, storage } = await checkpointOf([() => status(403, "<Error/>")]);
    await download();
    expect(storage.requests.map(({ path }) => path)).toEqual(["/f?sig=secret-0", "/f?sig=secret-1"]);
  });

  test.each<[string, number]>([
    ["longer", -1],
    ["shorter", 1],
  ])("that is %s than promised is an error, and no file", async (_, difference) => {
    const { download } = await checkpointOf([], { size: BYTES.length + difference });
    const error = await rejection(download());
    expect(error).toMatchObject({ name: "DownloadError", code: "ERR_DOWNLOAD" });
    expect(error.message).toContain(`expected ${BYTES.length + difference} bytes, got ${BYTES.length}`);
    expect(await readdir(folder)).toEqual(["model.bin.part"]);
  });

  test.each(["", ".", "..", "../x", "a/b", "/etc/passwd", "..\\x", "C:\\x", "a\0b"])(
    "under the name %j is refused before anything is written",
    async (filename) => {
      const { download, storage } = await checkpointOf([], { filename });
      expect((await rejection(download())).message).toBe(
        `download of ${JSON.stringify(filename)}: expected a plain file name`,
      );
      expect(storage.requests).toEqual([]);
      expect(await readdir(folder)).toEqual([]);
    },
  );

  test("that the disk refuses is an error of its own", async () => {
    const { download } = await checkpointOf([]);
    await mkdir(join(folder, "model.bin.part"));
    expect(await rejection(download())).toMatchObject({ code: "ERR_DOWNLOAD", cause: { code: "EISDIR" } });
  });

  test("that fails to the end says so without the permission", async () => {
    const { download } = await checkpointOf(Array(9).fill(() => status(500, "")));
    const error = await rejection(download());
    expect(error.code).toBe("ERR_SERVER");
    expect(`${error.message}${JSON.stringify(error)}`).not.toContain("secret");
  });

  test("that is aborted stops at once and leaves what it had", async () => {
    const { download } = await checkpointOf([
      () => (response) => {
        response.writeHead(200);
        response.write(BYTES.subarray(0, 1000));
      },
    ]);
    const controller = new AbortController();
    const error = rejection(download({ signal: controller.signal }));
    await expect.poll(async () => (await readdir(folder)).includes("model.bin.part")).toBe(true);
    const began = performance.now();
    controller.abort();
    expect((await error).name).toBe("AbortError");
    expect(performance.now() - began).toBeLessThan(100);
    expect(await readdir(folder)).toEqual(["model.bin.part"]);
  });
});

test("checkpoints of the local trainer are listed, looked at and downloaded, also by the next trainer", async () => {
  const dataFolder = join(folder, "data");
  const trainer = await trainerWith({ dataFolder });
  const client = clientOf(trainer);
  const session = await sessionOf(client);
  const { checkpoint } = await session.inferenceCheckpoint();
  await session.trainingCheckpoint();
  await trainer.close();
  await writeFile(join(dataFolder, "00000000-0000-4000-8000-000000000000.safetensors"), "no checkpoint");

  const next = clientOf(await trainerWith({ dataFolder }));
  const types: string[] = [];
  for await (const found of next.checkpoints.list({ sessionId: session.id, limit: 1 }))
    types.push(found.type);
  expect(types).toEqual(["TRAINING", "INFERENCE"]);
  expect(await next.checkpoints.get(checkpoint.id)).toMatchObject({
    id: checkpoint.id,
    type: "INFERENCE",
    baseModel: "local/tiny",
    sessionId: session.id,
    step: 0,
    loraRank: undefined,
  });
  const [path] = await next.checkpoints.download(checkpoint.id, { folder: join(folder, "files") });
  expect(await readFile(path!)).toEqual(await readFile(join(dataFolder, `${checkpoint.id}.safetensors`)));
  const adapter = next.checkpoints.download(checkpoint.id, { folder, variant: "adapter" });
  expect((await rejection(adapter)).code).toBe("ERR_UNPROCESSABLE_ENTITY");
  expect((await rejection(next.checkpoints.get("nothing"))).code).toBe("ERR_NOT_FOUND");
});
