// Ready losses at work on the local trainer: preference losses raise the held-out accuracy, policy losses the mean reward.
import { afterAll, beforeAll, expect, test } from "vitest";
import { Client } from "../../src/client/client.ts";
import type { Session } from "../../src/client/session.ts";
import { createEngine, type Engine } from "../../src/engine/engine.ts";
import { type LocalTrainer, startLocalTrainer } from "../../src/local/index.ts";
import type { Loss } from "../../src/loss/define.ts";
import { cispo, dpo, dro, grpo, gspo, kto, orpo, ppo, rloo, simpo } from "../../src/losses/index.ts";
import { groupNormAdvantages, rlooAdvantages } from "../../src/training/advantages/index.ts";
import { computeCustomForwardBackward, computeLogprobs } from "../../src/training/custom-loss.ts";
import { batchAt, seededRandom } from "../../src/training/order.ts";
import { buildGroups, buildLabelled, buildPairs, type PairRecord } from "../../src/training/records.ts";
import { referenceLogprobs } from "../../src/training/reference.ts";
import { rolloutSteps } from "../../src/training/rollouts.ts";
import type { SampleSet } from "../../src/training/sample-set.ts";

let engine: Engine;
let trainer: LocalTrainer;
let client: Client;
let resources: string;
beforeAll(async () => {
  engine = await createEngine({ device: "cpu" });
  trainer = await startLocalTrainer({ model: { layers: 2, width: 64, context: 32 }, threads: 1 });
  client = new Client({ baseURL: trainer.url, apiKey: trainer.apiKey });
  resources = (await client.modelResources.start({ baseModel: trainer.modelName })).id;
});
afterAll(async () => {
  engine.dispose();
  await client.close();
  await trainer.close();
});

async function inSession<T>(work: (session: Session) => Promise<T>): Promise<T> {
  const session = await client.sessions.start({ modelResourcesId: resources });
  const result = await work(session);
  await session.stop();
  return result;
}

const random = seededRandom(1);
const text = (letters: string, length: number) =>
  Array.from({ length }, () => letters.charCodeAt(Math.floor(random() * letters.length)));
/** Answers are told apart by how they are written; the untrained model finds the rejected ones likelier. */
const records: PairRecord[] = Array.from({ length: 96 }, () => ({
  prompt: text("0123456789", 3),
  chosen: text("ABCDEFGH", 6 + Math.floor(random() * 4)),
  rejected: text("abcdefgh", 6 + Math.floor(random() * 4)),
}));
const [train, heldOut] = [records.slice(0, 64), records.slice(64)];

/** Share of pairs whose chosen response is, per token, the likelier one. */
async function accuracyOf(session: Session, pairs: readonly PairRecord[]): Promise<number> {
  const { samples } = buildPairs(pairs);
  const rows = await computeLogprobs(session, samples);
  const mean = (sample: number) => rows[sample]!.reduce((a, b) => a + b, 0) / samples[sample]!.weights.length;
  return pairs.filter((_, pair) => mean(2 * pair) > mean(2 * pair + 1)).length / pairs.length;
}

interface Preference {
  readonly loss: Loss;
  readonly build?: (records: readonly PairRecord[]) => SampleSet<"labels">;
}
const labelled = (pairs: readonly PairRecord[]) =>
  buildLabelled(
    pairs.flatMap(({ prompt, chosen, rejected }) => [
      { prompt, response: chosen, desirable: true },
      { prompt, response: rejected, desirable: false },
    ]),
  );
const PREFERENCES: Record<string, Preference> = {
  DPO: { loss: dpo() },
  IPO: { loss: dpo({ type: "ipo" }) },
  KTO: { loss: kto(), build: labelled },
  SimPO: { loss: simpo() },
  ORPO: { loss: orpo() },
};

test.each(Object.entries(PREFERENCES))(
  "%s raises the held-out preference accuracy",
  async (_, preference) => {
    const { loss, build = buildPairs } = preference;
    const [before, after] = await inSession(async (session) => {
      const before = await accuracyOf(session, heldOut);
      const plain: SampleSet<string> = build(train);
      const reference = await referenceLogprobs(session, plain.samples);
      const set = plain.with({ reference });
      for (let step = 0; step < 12; step++) {
        const { samples, groups, inputs } = set.pick(batchAt(step, { count: set.length, size: 16 }));
        await computeCustomForwardBackward(session, samples, loss, { engine, groups, inputs });
        await session.optimStep({ adam: { learningRate: 2e-3 } });
      }
      return [before, await accuracyOf(session, heldOut)];
    });
    expect(before).toBeLessThan(0.5);
    expect(after).toBeGreaterThan(0.9);
  },
);

interface Policy {
  readonly loss: Loss;
  readonly advantages?: typeof rlooAdvantages;
  /** Optimizer steps on the same rollouts: in the later ones ratios are not 1. */
  readonly passes?: number;
}
const POLICIES: Record<string, Policy> = {
  GRPO: { loss: grpo(), passes: 2 },
  PPO: { loss: ppo(), passes: 2 },
  CISPO: { loss: cispo(), passes: 2 },
  GSPO: { loss: gspo(), passes: 2 },
  RLOO: { loss: rloo(), advantages: rlooAdvantages, passes: 2 },
  DRO: { loss: dro() },
};

const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;

test.each(Object.entries(POLICIES))("%s raises the mean reward", async (_, policy) => {
  const { loss, advantages: estimate = groupNormAdvantages, passes = 1 } = policy;
  const prompts = Array.from({ length: 8 }, (_, i) => [48 + i, 58]);
  const curve = await inSession(async (session) => {
    const curve: number[] = [];
    const steps = rolloutSteps(session, {
      steps: [0, 12],
      promptsAt: () => prompts,
      samplingAt: (step) => ({ numSamples: 8, maxTokens: 6, temperature: 1, seed: step }),
      // Tokens of the lower half of the bytes are wanted.
      reward: ({ tokens }) => mean(tokens.map((token) => +(Number(token) < 128))),
    });
    for await (const { rollouts } of steps) {
      const rewards = rollouts.flatMap((rollout) => rollout.rewards);
      curve.push(mean(rewards));
      const { samples, groups, inputs } = buildGroups(rollouts);
      const advantages = estimate(rewards, { groups });
      for (let pass = 0; pass < passes; pass++) {
        const options = { engine, groups, inputs: { ...inputs, advantages } };
        await computeCustomForwardBackward(session, samples, loss, options);
        await session.optimStep({ adam: { learningRate: 2e-3 } });
      }
    }
    return curve;
  });
  expect(mean(curve.slice(0, 2))).toBeLessThan(0.65);
  expect(mean(curve.slice(-3))).toBeGreaterThan(mean(curve.slice(0, 2)) + 0.15);
});
