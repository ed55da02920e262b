// Prompts and answers as training samples, and what is measured on them.
import type { Sample } from "../../client/sample.ts";
import type { Session } from "../../client/session.ts";
import { referenceLogprobs } from "../../training/reference.ts";
import { buildCrossEntropySample } from "../../training/samples.ts";
import { encodeText, type Pair } from "./data.ts";

/** A sample that trains on the answer only. */
export function answerSample(prompt: readonly number[], answer: readonly number[]): Sample {
  const mask = [...prompt.map(() => 0), ...answer.map(() => 1)];
  return buildCrossEntropySample({ tokens: [...prompt, ...answer], mask });
}

export const chosenSample = (pair: Pair) => answerSample(encodeText(pair.prompt), encodeText(pair.chosen));
export const rejectedSample = (pair: Pair) =>
  answerSample(encodeText(pair.prompt), encodeText(pair.rejected));

export const countTokens = (samples: readonly Sample[]) =>
  samples.reduce((total, sample) => total + sample.tokens.length, 0);

/** Log-probabilities of many samples, a slice at a time. */
export const logprobsOf = (
  session: Session,
  samples: readonly Sample[],
  signal: AbortSignal,
): Promise<Float32Array[]> => referenceLogprobs(session, samples, { signal });

/** The sum of each sample's log-probabilities; positions that are not trained hold 0. */
const sums = (rows: readonly Float32Array[]) => rows.map((row) => row.reduce((a, b) => a + b, 0));

/** Mean negative log-likelihood per trained token. @unit nats */
export async function meanNll(
  session: Session,
  samples: readonly Sample[],
  signal: AbortSignal,
): Promise<number> {
  const trained = samples.reduce(
    (total, { weights }) => total + Array.from(weights).filter((w) => w > 0).length,
    0,
  );
  const total = sums(await logprobsOf(session, samples, signal)).reduce((a, b) => a + b, 0);
  return -total / trained;
}

/** Share of pairs whose chosen answer the model finds likelier than the rejected one. */
export async function preferenceAccuracy(
  session: Session,
  pairs: readonly Pair[],
  signal: AbortSignal,
): Promise<number> {
  const chosen = sums(await logprobsOf(session, pairs.map(chosenSample), signal));
  const rejected = sums(await logprobsOf(session, pairs.map(rejectedSample), signal));
  return chosen.filter((sum, index) => sum > rejected[index]!).length / pairs.length;
}
