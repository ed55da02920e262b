// Stage 4: a policy-gradient loop that samples answers, scores them by a reward function and publishes the weights.
import type { Session } from "../../client/session.ts";
import { defineLoss, perSample } from "../../loss/define.ts";
import { computeCustomForwardBackward } from "../../training/custom-loss.ts";
import { answerSample, countTokens } from "./answers.ts";
import { decodeTokens, encodeText, type Pair } from "./data.ts";
import { batches } from "./random.ts";
import { inSession, learningRate, runSteps, type Stage, type StageResult } from "./stage.ts";

const STEPS = 40;
const PROMPTS = 8;
const COMPLETIONS = 8;
const MAX_TOKENS = 80;
const PEAK_LEARNING_RATE = 3e-4;
/** Length that the reward asks for. @unit bytes */
const WANTED_LENGTH = 36;

const policyGradient = defineLoss({
  name: "policy_gradient",
  inputs: { advantage: perSample() },
  loss: ({ logprobs, advantage }) => logprobs.mul(advantage).mean("sample").neg().mean(),
});

/** Half for an answer that ends as a sentence, half for how near its length is to the one asked for. */
function reward(answer: string): number {
  const finished = answer.endsWith(".\n") ? 0.5 : 0;
  return finished + 0.5 * Math.exp(-Math.abs(answer.trim().length - WANTED_LENGTH) / 12);
}

interface Rollout {
  readonly prompt: readonly number[];
  readonly answer: readonly number[];
  readonly reward: number;
}

/** Samples `completions` answers to each prompt and scores them, prompt by prompt. */
async function rollOut(
  session: Session,
  prompts: readonly (readonly number[])[],
  completions: number,
  seed: number,
  signal: AbortSignal,
): Promise<Rollout[]> {
  const sampling = { numSamples: completions, maxTokens: MAX_TOKENS, temperature: 1, stop: ["\n"], seed };
  const { results } = await session.sample(prompts, sampling, { signal });
  return results.flatMap(({ sequences }, index) =>
    sequences.map(({ tokens }) => {
      const answer = tokens.map(Number);
      return { prompt: prompts[index]!, answer, reward: reward(decodeTokens(answer)) };
    }),
  );
}

const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;

/** Rewards relative to the mean of their prompt, in units of its spread; 0 where all are alike. */
function advantages(rewards: readonly number[], perPrompt: number): number[] {
  return rewards.map((value, index) => {
    const start = index - (index % perPrompt);
    const group = rewards.slice(start, start + perPrompt);
    const spread = Math.sqrt(mean(group.map((other) => (other - mean(group)) ** 2)));
    return (value - mean(group)) / (spread + 1e-4);
  });
}

export async function trainOnRewards(
  stage: Stage,
  checkpointId: string,
  train: readonly Pair[],
  heldOut: readonly Pair[],
): Promise<StageResult> {
  const { engine, random, signal } = stage;
  const promptsOf = (pairs: readonly Pair[]) => pairs.map((pair) => encodeText(pair.prompt));
  return inSession(stage, checkpointId, async (session) => {
    const measure = async () =>
      mean((await rollOut(session, promptsOf(heldOut), 2, 1, signal)).map((rollout) => rollout.reward));
    const before = await measure();
    const next = batches(promptsOf(train), PROMPTS, random);
    const curve = await runSteps("policy gradient", "reward", STEPS, signal, async (index) => {
      const rollouts = await rollOut(session, next.next().value, COMPLETIONS, index, signal);
      const rewards = rollouts.map((rollout) => rollout.reward);
      const batch = rollouts.map(({ prompt, answer }) => answerSample(prompt, answer));
      const inputs = { advantage: advantages(rewards, COMPLETIONS) };
      await computeCustomForwardBackward(session, batch, policyGradient, { engine, inputs, signal });
      await session.optimStep(
        { adam: { learningRate: learningRate(PEAK_LEARNING_RATE, index, STEPS) } },
        { signal },
      );
      await session.weightsSync({}, { signal });
      return { value: mean(rewards), tokens: countTokens(batch) };
    });
    const { checkpoint } = await session.trainingCheckpoint({ signal });
    const after = await measure();
    const figure = { name: "mean reward", before, after, better: "higher" } as const;
    return { checkpointId: checkpoint.id, curve, figure };
  });
}
