// Stage 2: regularised SFT on the chosen answers, a custom loss with a frozen reference.
import { defineLoss, perToken } from "../../loss/define.ts";
import { computeCustomForwardBackward } from "../../training/custom-loss.ts";
import { chosenSample, countTokens, logprobsOf, meanNll } from "./answers.ts";
import type { Pair } from "./data.ts";
import { batches } from "./random.ts";
import { inSession, learningRate, runSteps, type Stage, type StageResult, stepsFor } from "./stage.ts";

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
  train: readonly Pair[],
  heldOut: readonly Pair[],
): Promise<StageResult> {
  const { engine, random, signal } = stage;
  return inSession(stage, checkpointId, async (session) => {
    const samples = train.map(chosenSample);
    const measured = heldOut.map(chosenSample);
    const before = await meanNll(session, measured, signal);
    const reference = await logprobsOf(session, samples, signal);
    const steps = stepsFor(PASSES, samples.length, BATCH, MOST_STEPS);
    const next = batches([...samples.keys()], BATCH, random);
    const curve = await runSteps("regularised SFT", "loss", steps, signal, async (index) => {
      const chosen = next.next().value;
      const batch = chosen.map((sample) => samples[sample]!);
      const inputs = { reference: chosen.map((sample) => reference[sample]!) };
      const { loss } = await computeCustomForwardBackward(session, batch, regularizedSft, {
        engine,
        inputs,
        signal,
      });
      await session.optimStep(
        { adam: { learningRate: learningRate(PEAK_LEARNING_RATE, index, steps) } },
        { signal },
      );
      return { value: loss, tokens: countTokens(batch) };
    });
    const { checkpoint } = await session.trainingCheckpoint({ signal });
    const after = await meanNll(session, measured, signal);
    const figure = { name: "held-out NLL, answers", before, after, better: "lower" } as const;
    return { checkpointId: checkpoint.id, curve, figure };
  });
}
