// Gradients that train the wrong way raise nothing: only the trainer tells. The local one really applies them.
import { afterAll, beforeAll, expect, it } from "vitest";
import { Client } from "../../src/client/client.ts";
import { type LocalTrainer, startLocalTrainer } from "../../src/local/index.ts";
import { defineLoss, type Loss } from "../../src/loss/define.ts";
import { computeCustomForwardBackward } from "../../src/training/custom-loss.ts";
import { buildCrossEntropySample } from "../../src/training/samples.ts";
import { useEngine } from "../engine/helpers.ts";

const held = useEngine();
let trainer: LocalTrainer;
beforeAll(async () => {
  trainer = await startLocalTrainer({ model: { layers: 1, width: 32, context: 64 } });
});
afterAll(() => trainer.close());

/** Negative log-likelihood before each of some optimizer steps and after the last, and the gradients of the first. */
async function train(loss: Loss): Promise<{ nll: number[]; gradients: number[][] }> {
  const client = new Client({ baseURL: trainer.url, apiKey: trainer.apiKey });
  try {
    const { id } = await client.modelResources.start({ baseModel: trainer.modelName });
    const session = await client.sessions.start({ modelResourcesId: id });
    const tokens = [...Buffer.from("The river rose in one night.")];
    const samples = [buildCrossEntropySample({ tokens, mask: tokens.map((_, i) => +(i > 3)) })];
    const nll: number[] = [];
    let gradients: number[][] | undefined;
    for (let step = 0; step < 4; step++) {
      const result = await computeCustomForwardBackward(session, samples, loss, { engine: held.engine });
      gradients ??= [...result.gradients].map((row) => [...row]);
      nll.push(Math.abs(result.loss));
      await session.optimStep({ adam: { learningRate: 3e-3 } });
    }
    return { nll, gradients: gradients! };
  } finally {
    await client.close();
  }
}

const falls = (values: readonly number[]) => values.every((value, i) => i === 0 || value < values[i - 1]!);

it("minimising the negative sum sends -1 everywhere and lowers the negative log-likelihood", async () => {
  const { nll, gradients } = await train(defineLoss({ loss: ({ logprobs }) => logprobs.sum().neg() }));
  expect(gradients).toEqual([[0, 0, 0, ...Array(24).fill(-1)]]);
  expect(falls(nll)).toBe(true);
});

it("the same loss with its sign lost sends 1 everywhere and raises it", async () => {
  const { nll, gradients } = await train(defineLoss({ loss: ({ logprobs }) => logprobs.sum() }));
  expect(gradients).toEqual([[0, 0, 0, ...Array(24).fill(1)]]);
  expect(falls(nll)).toBe(false);
  expect(nll.at(-1)).toBeGreaterThan(nll[0]!);
});
