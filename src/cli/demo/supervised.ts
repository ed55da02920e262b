// Stage 2: regularised SFT on the chosen answers, a custom loss with a frozen reference.
import { defineLoss, perToken } from "../../loss/define.ts";
import { computeCustomForwardBackward } from "../../training/custom-loss.ts";
import { chosenSample, countTokens, logprobsOf, meanNll } from "./answers.ts";
import type { Pair } from "./data.ts";
import { batches } from "./random.ts";
import { inSession, type Stage, type StageResult, stepsFor, type Training, train } from "./stage.ts";

const MOST_STEPS = 50;
const PASSES = 5;
const BATCH = 24;
const PEAK_LEARNING_RATE = 4e-4;

const regularizedSft = defineLoss({
  name: "regularized_sft",
  inputs: { reference: perToken() },
  params: { beta: 0.1 },
  loss: ({ logprobs, reference, beta }) => {
    const nll = logprobs.neg().mean("sample");
    const drift = logprobs.sub(reference).square().mean("sample");
    return nll.add(drift.mul(beta)).mean();
  },
});

export async function trainOnChosen(
  stage: Stage,
  checkpointId: string,
  pairs: readonly Pair[],
  heldOut: readonly Pair[],
): Promise<StageResult> {
  const { engine, random, signal } = stage;
  return inSession(stage, checkpointId, async (session) => {
    const samples = pairs.map(chosenSample);
    const measured = heldOut.map(chosenSample);
    const reference = await logprobsOf(session, samples, signal);
    const next = batches([...samples.keys()], BATCH, random);
    const training: Training = {
      label: "regularised SFT",
      valueName: "loss",
      steps: stepsFor(PASSES, samples.length, BATCH, MOST_STEPS),
      peakLearningRate: PEAK_LEARNING_RATE,
      figure: { name: "held-out NLL, answers", better: "lower" },
      measure: () => meanNll(session, measured, signal),
      accumulate: async () => {
        const chosen = next.next().value;
        const batch = chosen.map((sample) => samples[sample]!);
        const inputs = { reference: chosen.map((sample) => reference[sample]!) };
        const options = { engine, inputs, signal };
        const { loss } = await computeCustomForwardBackward(session, batch, regularizedSft, options);
        return { value: loss, tokens: countTokens(batch) };
      },
    };
    return train(session, training, signal);
  });
}
