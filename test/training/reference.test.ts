// Reference log-probabilities: scored in slices, kept on disk by what they depend on, taken from there again.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { buildPairs } from "../../src/training/records.ts";
import { type ReferenceProgress, referenceLogprobs } from "../../src/training/reference.ts";
import { completed, scriptedSession } from "../client/server.ts";

const folder = mkdtempSync(join(tmpdir(), "tokengrad-reference-test-"));
afterAll(() => rmSync(folder, { recursive: true }));

const set = buildPairs([
  { prompt: [1, 2], chosen: [3, 4], rejected: [5] },
  { prompt: [6], chosen: [7], rejected: [8] },
]);
const scored = (...rows: number[][]) =>
  completed({
    loss: 1,
    loss_fn_outputs: rows.map((data) => ({ tensors: { logprobs: { data, dtype: "float32" } } })),
  });
const ROWS = [[0, -1, -2], [0, -3], [-4], [-5]];
const ANSWERS = [scored(...ROWS.slice(0, 3)), scored(...ROWS.slice(3))];
const plain = (rows: Float32Array[]) => rows.map((row) => [...row]);
const cache = { folder, model: "local/tiny", checkpoint: "c-1" };

test("samples are scored in slices, with progress", async () => {
  const { session, requests } = await scriptedSession(ANSWERS);
  const seen: ReferenceProgress[] = [];
  const rows = await referenceLogprobs(session, set.samples, {
    referenceBatchSize: 3,
    onProgress: (progress) => seen.push(progress),
  });
  expect(plain(rows)).toEqual(ROWS);
  expect(requests).toHaveLength(2);
  expect(seen).toEqual([
    { done: 3, total: 4, tokens: 6, isCached: false },
    { done: 4, total: 4, tokens: 7, isCached: false },
  ]);
});

test("what is known is not asked for again; another model, checkpoint or weight is", async () => {
  const first = await scriptedSession([scored(...ROWS)]);
  await referenceLogprobs(first.session, set.samples, { cache });
  expect(readdirSync(folder)).toHaveLength(1);

  const again = await scriptedSession([]);
  const seen: ReferenceProgress[] = [];
  const rows = await referenceLogprobs(again.session, set.samples, {
    cache,
    onlyCached: true,
    onProgress: (progress) => seen.push(progress),
  });
  expect(plain(rows)).toEqual(ROWS);
  expect(again.requests).toHaveLength(0);
  expect(seen).toEqual([{ done: 4, total: 4, tokens: 7, isCached: true }]);

  const [sample, ...others] = set.samples;
  const changed = [{ ...sample!, weights: [1, 1, 1] }, ...others];
  for (const [samples, key] of [
    [set.samples, { ...cache, model: "other" }],
    [set.samples, { ...cache, checkpoint: "c-2" }],
    [set.samples, { folder, model: cache.model }],
    [changed, cache],
  ] as const) {
    const { session, requests } = await scriptedSession([scored(...ROWS)]);
    await referenceLogprobs(session, samples, { cache: key });
    expect(requests).toHaveLength(1);
  }
  expect(readdirSync(folder)).toHaveLength(5);
});

test("a damaged or cut file is scored anew and mended", async () => {
  const own = { ...cache, folder: join(folder, "own") };
  const first = await scriptedSession([scored(...ROWS)]);
  await referenceLogprobs(first.session, set.samples, { cache: own });
  const [name] = readdirSync(own.folder);
  const path = join(own.folder, name!);
  const whole = readFileSync(path);
  const flipped = Buffer.from(whole);
  flipped[40]! ^= 1;
  for (const broken of [flipped, whole.subarray(0, 10), Buffer.alloc(0)]) {
    writeFileSync(path, broken);
    const { session, requests } = await scriptedSession([scored(...ROWS)]);
    expect(plain(await referenceLogprobs(session, set.samples, { cache: own }))).toEqual(ROWS);
    expect(requests).toHaveLength(1);
    expect(readFileSync(path).equals(whole)).toBe(true);
  }
  expect(readdirSync(own.folder)).toEqual([name]);
});

test("wrong options are refused before anything is scored", async () => {
  const { session, requests } = await scriptedSession([]);
  const call = (options: object) => referenceLogprobs(session, set.samples, options);
  await expect(call({ referenceBatchSize: 0 })).rejects.toThrow(
    "referenceLogprobs.referenceBatchSize: expected a whole number",
  );
  await expect(call({ cache: { ...cache, model: "new" }, onlyCached: true })).rejects.toThrow(
    "cache: expected the rows of these samples, found none in",
  );
  await expect(call({ batchSize: 3 })).rejects.toThrow("referenceLogprobs.batchSize");
  await expect(call({ cache: { ...cache, modell: "x" } })).rejects.toThrow("did you mean model?");
  expect(requests).toHaveLength(0);
});
