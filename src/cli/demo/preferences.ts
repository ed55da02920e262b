// Stage 3: direct preference optimisation on pairs of answers, a custom loss over groups of two samples.
import { defineLoss, perToken } from "../../loss/define.ts";
import { computeCustomForwardBackward } from "../../training/custom-loss.ts";
import { chosenSample, countTokens, logprobsOf, preferenceAccuracy, rejectedSample } from "./answers.ts";
import type { Pair } from "./data.ts";
import { batches } from "./random.ts";
import { inSession, type Stage, type StageResult, stepsFor, type Training, train } from "./stage.ts";

const MOST_STEPS = 50;
const PASSES = 3;
const PAIRS = 12;
const PEAK_LEARNING_RATE = 3e-4;

const dpo = defineLoss({
  name: "dpo",
  inputs: { reference: perToken() },
  params: { beta: 0.1 },
  loss: ({ logprobs, reference, beta }) => {
    const reward = logprobs.sub(reference).sum("sample").mul(beta);
    const margin = reward.member(0).sub(reward.member(1));
    return margin.logSigmoid().neg().mean();
  },
});

export async function trainOnPreferences(
  stage: Stage,
  checkpointId: string,
  pairs: readonly Pair[],
  heldOut: readonly Pair[],
): Promise<StageResult> {
  const { engine, random, signal } = stage;
  return inSession(stage, checkpointId, async (session) => {
    const samples = pairs.flatMap((pair) => [chosenSample(pair), rejectedSample(pair)]);
    const reference = await logprobsOf(session, samples, signal);
    const next = batches([...pairs.keys()], PAIRS, random);
    const training: Training = {
      label: "DPO",
      valueName: "loss",
      steps: stepsFor(PASSES, pairs.length, PAIRS, MOST_STEPS),
      peakLearningRate: PEAK_LEARNING_RATE,
      figure: { name: "preference accuracy", better: "higher", best: 1 },
      measure: () => preferenceAccuracy(session, heldOut, signal),
      accumulate: async () => {
        const both = next.next().value.flatMap((pair) => [2 * pair, 2 * pair + 1]);
        const batch = both.map((sample) => samples[sample]!);
        const inputs = { reference: both.map((sample) => reference[sample]!) };
        const options = { engine, inputs, groups: 2, signal };
        const { loss } = await computeCustomForwardBackward(session, batch, dpo, options);
        return { value: loss, tokens: countTokens(batch) };
      },
    };
    return train(session, training, signal);
  });
}
