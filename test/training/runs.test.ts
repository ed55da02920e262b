// Order and state of a run: what a resumed one needs to go on with the same numbers.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { batchAt } from "../../src/training/order.ts";
import { loadRun, saveRun } from "../../src/training/run-state.ts";
import { completed, failed, scriptedSession } from "../client/server.ts";

const folder = mkdtempSync(join(tmpdir(), "tokengrad-runs-test-"));
afterAll(() => rmSync(folder, { recursive: true }));

const CHECKPOINT = { checkpoint: { id: "c-1", step: 7 } };

test("every item comes once before any comes again, and a step's do not depend on those before", () => {
  const order = { count: 7, size: 3, seed: 5 };
  const forwards = Array.from({ length: 7 }, (_, step) => batchAt(step, order));
  const backwards = [6, 5, 4, 3, 2, 1, 0].map((step) => batchAt(step, order)).reverse();
  expect(backwards).toEqual(forwards);
  const epochs = [0, 1, 2].map((epoch) => forwards.flat().slice(7 * epoch, 7 * epoch + 7));
  for (const epoch of epochs) expect([...epoch].sort()).toEqual([0, 1, 2, 3, 4, 5, 6]);
  expect(epochs[0]).not.toEqual(epochs[1]);
  expect(batchAt(0, { ...order, seed: 6 })).not.toEqual(forwards[0]);
  expect(batchAt(2, { count: 2, size: 5 }).sort()).toHaveLength(5);
  expect(() => batchAt(0, { count: 0, size: 1 })).toThrow(
    "batchAt.count: expected a whole number of at least 1",
  );
  expect(() => batchAt(0.5, order)).toThrow("batchAt.step: expected a whole number of at least 0, got 0.5");
});

test("a run is found again as it was saved", async () => {
  const path = join(folder, "new", "run.json");
  expect(await loadRun(path)).toBeUndefined();
  const { session, requests } = await scriptedSession([completed(CHECKPOINT)]);
  const kept = { curve: [1 / 3, 2] };
  expect(await saveRun(path, session, { step: 7, kept })).toEqual({ step: 7, checkpointId: "c-1", kept });
  expect(requests[0]!.path).toMatch(/training-checkpoint$/);
  expect(await loadRun(path)).toEqual({ step: 7, checkpointId: "c-1", kept });
  expect(readdirSync(join(folder, "new"))).toEqual(["run.json"]);
});

test("a checkpoint that fails leaves the state before", async () => {
  const path = join(folder, "run.json");
  const { session } = await scriptedSession([completed(CHECKPOINT), failed({ code: "X", message: "no" })]);
  const first = await saveRun(path, session, { step: 1, kept: null });
  await expect(saveRun(path, session, { step: 2, kept: null })).rejects.toThrow();
  expect(await loadRun(path)).toEqual(first);
});

test.each([["{"], ["null"], ['{"step":1}'], ['{"step":1.5,"checkpointId":"c"}']])(
  "%s is no state of a run",
  async (text) => {
    const path = join(folder, "broken.json");
    writeFileSync(path, text);
    await expect(loadRun(path)).rejects.toThrow(`${path}: expected the state of a run`);
  },
);
