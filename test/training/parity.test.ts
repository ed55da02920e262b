// The whole path against the built-in loss: cross-entropy by `forwardBackward` and as a custom loss must train the same
// model, from the first request to the checkpoint's file.
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Client } from "../../src/client/client.ts";
import type { WireFormat } from "../../src/client/formats.ts";
import type { Session } from "../../src/client/session.ts";
import { createEngine, type Engine } from "../../src/engine/engine.ts";
import { type LocalTrainer, startLocalTrainer } from "../../src/local/index.ts";
import { readTensors } from "../../src/local/safetensors.ts";
import { defineLoss } from "../../src/loss/define.ts";
import { crossEntropy } from "../../src/losses/supervised.ts";
import { computeCustomForwardBackward } from "../../src/training/custom-loss.ts";
import { buildCrossEntropySample } from "../../src/training/samples.ts";

let engine: Engine;
let folder: string;
let trainer: LocalTrainer;
beforeAll(async () => {
  engine = await createEngine({ device: "cpu" });
  folder = await mkdtemp(join(tmpdir(), "tokengrad-parity-"));
  trainer = await startLocalTrainer({ dataFolder: folder, model: { layers: 2, width: 64, context: 64 } });
});
afterAll(async () => {
  engine.dispose();
  await trainer.close();
  await rm(folder, { recursive: true });
});

const sample = (text: string, prompt: number) => {
  const tokens = [...Buffer.from(text)];
  return buildCrossEntropySample({ tokens, mask: tokens.map((_, position) => +(position >= prompt)) });
};
const SAMPLES = [
  sample("Q: Who bakes the bread?\nA: Anna bakes it before the sun is up.", 24),
  sample("The river rose in one night.", 1),
  sample("snow", 2),
];

const sumOfNll = crossEntropy({ reduction: "token_sum" });
const flipped = defineLoss({ loss: ({ logprobs }) => logprobs.sum() });

interface Run {
  readonly learningRate?: number;
  readonly wireFormat?: WireFormat;
}

/** The weights after one step of AdamW on the gradients that `accumulate` sends, as one list. */
async function trained(
  accumulate: (session: Session) => Promise<unknown>,
  { learningRate = 1, wireFormat = "loss_inputs" }: Run = {},
): Promise<Float32Array> {
  const client = new Client({ baseURL: trainer.url, apiKey: trainer.apiKey, wireFormat });
  try {
    const { id } = await client.modelResources.start({ baseModel: trainer.modelName });
    const session = await client.sessions.start({ modelResourcesId: id });
    await accumulate(session);
    // A large eps keeps the step in proportion to the gradient, so that a wrong scale shows as well as a wrong sign.
    const { step } = await session.optimStep({ adam: { learningRate, eps: 100, gradClipNorm: 0 } });
    expect(step).toBe(1);
    const { checkpoint } = await session.trainingCheckpoint();
    const [file] = (await readdir(folder)).filter((name) => name.includes(checkpoint.id));
    const { tensors } = await readTensors(join(folder, file!));
    const weights = tensors.filter(({ name }) => !/moment|adam/i.test(name));
    expect(weights.length).toBeGreaterThan(10);
    return Float32Array.from(
      weights.flatMap(({ bytes }) => [...new Float32Array(Uint8Array.from(bytes).buffer)]),
    );
  } finally {
    await client.close();
  }
}

const custom = (loss: typeof sumOfNll) => (session: Session) =>
  computeCustomForwardBackward(session, SAMPLES, loss, { engine });
const builtIn = (session: Session) => session.forwardBackward(SAMPLES, { type: "cross_entropy" });

/** Largest difference of two trainings, in units of the largest change that the first of them made. */
function distance(ours: Float32Array, theirs: Float32Array, start: Float32Array): number {
  let difference = 0;
  let change = 0;
  theirs.forEach((value, index) => {
    difference = Math.max(difference, Math.abs(ours[index]! - value));
    change = Math.max(change, Math.abs(value - start[index]!));
  });
  expect(change).toBeGreaterThan(1e-3);
  return difference / change;
}

test("a custom cross-entropy moves the weights as the built-in one does, and a flipped sign does not", async () => {
  const start = await trained(builtIn, { learningRate: 0 });
  const expected = await trained(builtIn);
  expect(distance(await trained(custom(sumOfNll)), expected, start)).toBeLessThan(1e-5);
  expect(distance(await trained(custom(flipped)), expected, start)).toBeGreaterThan(1);
});

test("both wire formats train alike", async () => {
  const [one, other] = [
    await trained(custom(sumOfNll), { wireFormat: "loss_inputs" }),
    await trained(custom(sumOfNll), { wireFormat: "loss_fn_inputs" }),
  ];
  expect(one).toEqual(other);
});

test("the loss of a custom pass is the built-in one's", async () => {
  const client = new Client({ baseURL: trainer.url, apiKey: trainer.apiKey });
  const { id } = await client.modelResources.start({ baseModel: trainer.modelName });
  const session = await client.sessions.start({ modelResourcesId: id });
  const { loss: theirs } = await builtIn(session);
  const { loss: ours } = await custom(sumOfNll)(session);
  expect(Math.abs(ours - theirs) / theirs).toBeLessThan(1e-6);
  await client.close();
});
