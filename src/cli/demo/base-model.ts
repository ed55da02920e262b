// Stage 1: a small base model, trained on a text with the service's built-in cross-entropy.
import type { Sample } from "../../client/sample.ts";
import { buildCrossEntropySample } from "../../training/samples.ts";
import { countTokens, meanNll } from "./answers.ts";
import { encodeText } from "./data.ts";
import { inSession, learningRate, runSteps, type Stage, type StageResult } from "./stage.ts";

const STEPS = 240;
const BATCH = 24;
const WINDOW = 129;
const PEAK_LEARNING_RATE = 4e-3;
/** Share of the text, its end, that is held out. */
const HELD_OUT = 0.05;

/** Trains every token of a window of the text. */
const windowSample = (tokens: readonly number[]): Sample =>
  buildCrossEntropySample({ tokens, mask: tokens.map(() => 1) });

export async function trainBaseModel(stage: Stage, text: string): Promise<StageResult> {
  const tokens = encodeText(text);
  const split = Math.floor(tokens.length * (1 - HELD_OUT));
  const heldOut: Sample[] = [];
  for (let start = split; start + WINDOW <= tokens.length; start += WINDOW) {
    heldOut.push(windowSample(tokens.slice(start, start + WINDOW)));
  }
  const randomWindow = () => {
    const start = Math.floor(stage.random() * (split - WINDOW));
    return windowSample(tokens.slice(start, start + WINDOW));
  };

  return inSession(stage, undefined, async (session) => {
    const { signal } = stage;
    const before = await meanNll(session, heldOut, signal);
    const curve = await runSteps("base model", "loss", STEPS, signal, async (index) => {
      const samples = Array.from({ length: BATCH }, randomWindow);
      const { loss } = await session.forwardBackward(samples, { type: "cross_entropy" }, { signal });
      await session.optimStep(
        { adam: { learningRate: learningRate(PEAK_LEARNING_RATE, index, STEPS) } },
        { signal },
      );
      return { value: loss / countTokens(samples), tokens: countTokens(samples) };
    });
    const { checkpoint } = await session.trainingCheckpoint({ signal });
    const after = await meanNll(session, heldOut, signal);
    const figure = { name: "held-out NLL, text", before, after, better: "lower" } as const;
    return { checkpointId: checkpoint.id, curve, figure };
  });
}
