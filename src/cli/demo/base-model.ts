// Stage 1: a small base model, trained on a text with the service's built-in cross-entropy.
import type { Sample } from "../../client/sample.ts";
import { InputError } from "../../errors.ts";
import { buildCrossEntropySample } from "../../training/samples.ts";
import { countTokens, meanNll } from "./answers.ts";
import { encodeText } from "./data.ts";
import { inSession, type Stage, type StageResult, train } from "./stage.ts";

const STEPS = 240;
const BATCH = 24;
const WINDOW = 129;
const PEAK_LEARNING_RATE = 4e-3;
/** Share of the text, its end, that is held out. */
const HELD_OUT = 0.05;

/** Shortest text of which enough is held out to measure on. */
const MIN_BYTES = 20_000;

/** Trains every token of a window of the text. */
const windowSample = (tokens: readonly number[]): Sample =>
  buildCrossEntropySample({ tokens, mask: tokens.map(() => 1) });

export async function trainBaseModel(stage: Stage, text: string): Promise<StageResult> {
  const tokens = encodeText(text);
  if (tokens.length < MIN_BYTES) {
    throw new InputError("text", `expected at least ${MIN_BYTES} bytes, got ${tokens.length}`);
  }
  const split = Math.floor(tokens.length * (1 - HELD_OUT));
  const heldOut: Sample[] = [];
  for (let start = split; start + WINDOW <= tokens.length; start += WINDOW) {
    heldOut.push(windowSample(tokens.slice(start, start + WINDOW)));
  }
  const randomWindow = () => {
    const start = Math.floor(stage.random() * (split - WINDOW));
    return windowSample(tokens.slice(start, start + WINDOW));
  };

  return inSession(stage, undefined, (session) =>
    train(
      session,
      {
        label: "base model",
        valueName: "loss",
        steps: STEPS,
        peakLearningRate: PEAK_LEARNING_RATE,
        figure: { name: "held-out NLL, text", better: "lower" },
        measure: () => meanNll(session, heldOut, stage.signal),
        accumulate: async () => {
          const samples = Array.from({ length: BATCH }, randomWindow);
          const { loss } = await session.forwardBackward(
            samples,
            { type: "cross_entropy" },
            { signal: stage.signal },
          );
          return { value: loss / countTokens(samples), tokens: countTokens(samples) };
        },
      },
      stage.signal,
    ),
  );
}
