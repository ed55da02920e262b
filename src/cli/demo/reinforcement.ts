// Stage 4: a policy-gradient loop that samples answers, scores them by a reward function and publishes the weights.
import type { Session } from "../../client/session.ts";
import { defineLoss, perSample } from "../../loss/define.ts";
import { groupNormAdvantages } from "../../training/advantages/index.ts";
import { computeCustomForwardBackward } from "../../training/custom-loss.ts";
import { answerSample, countTokens } from "./answers.ts";
import { decodeTokens, encodeText, type Pair } from "./data.ts";
import { batches } from "./random.ts";
import { inSession, type Stage, type StageResult, type Training, train } from "./stage.ts";

const STEPS = 40;
const PROMPTS = 8;
const COMPLETIONS = 8;
const MAX_TOKENS = 80;
const PEAK_LEARNING_RATE = 3e-4;
/** Seed of the answers that are measured, apart from those that are trained on. */
const MEASURING_SEED = 1_000_000;
/** Length that the reward asks for. @unit bytes */
const WANTED_LENGTH = 36;

const policyGradient = defineLoss({
  name: "policy_gradient",
  inputs: { advantages: perSample() },
  loss: ({ logprobs, advantages }) => logprobs.mul(advantages).mean("sample").neg().mean(),
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

/** Publishes the weights, samples `completions` answers to each prompt and scores them, prompt by prompt. */
async function rollOut(
  session: Session,
  prompts: readonly (readonly number[])[],
  completions: number,
  seed: number,
  signal: AbortSignal,
): Promise<Rollout[]> {
  const sampling = { numSamples: completions, maxTokens: MAX_TOKENS, temperature: 1, stop: ["\n"], seed };
  await session.weightsSync({}, { signal });
  const { results } = await session.sample(prompts, sampling, { signal });
  return results.flatMap(({ sequences }, index) =>
    sequences.map(({ tokens }) => {
      const answer = tokens.map(Number);
      return { prompt: prompts[index]!, answer, reward: reward(decodeTokens(answer)) };
    }),
  );
}

const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;

export async function trainOnRewards(
  stage: Stage,
  checkpointId: string,
  pairs: readonly Pair[],
  heldOut: readonly Pair[],
): Promise<StageResult> {
  const { engine, random, signal } = stage;
  const promptsOf = (pairs: readonly Pair[]) => pairs.map((pair) => encodeText(pair.prompt));
  return inSession(stage, checkpointId, async (session) => {
    const next = batches(promptsOf(pairs), PROMPTS, random);
    let seed = 0;
    const training: Training = {
      label: "policy gradient",
      valueName: "reward",
      steps: STEPS,
      peakLearningRate: PEAK_LEARNING_RATE,
      figure: { name: "mean reward", better: "higher" },
      measure: async () => {
        const rollouts = await rollOut(session, promptsOf(heldOut), 2, MEASURING_SEED, signal);
        return mean(rollouts.map((rollout) => rollout.reward));
      },
      accumulate: async () => {
        const rollouts = await rollOut(session, next.next().value, COMPLETIONS, seed++, signal);
        const rewards = rollouts.map((rollout) => rollout.reward);
        const batch = rollouts.map(({ prompt, answer }) => answerSample(prompt, answer));
        const inputs = { advantages: groupNormAdvantages(rewards, { groups: COMPLETIONS }) };
        await computeCustomForwardBackward(session, batch, policyGradient, { engine, inputs, signal });
        return { value: mean(rewards), tokens: countTokens(batch) };
      },
    };
    return train(session, training, signal);
  });
}
