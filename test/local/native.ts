// What tests of the trainer's addon share: a small model, batches, and numbers out of it.
import {
  loadTrainer,
  type NativeAdam,
  type NativeBatch,
  type NativeConfig,
  type NativeLoss,
  type NativeSession,
  type NativeState,
} from "../../src/local/binding.ts";
import { seededRandom } from "../helpers.ts";

export const trainer = loadTrainer();

export const TINY: NativeConfig = {
  layers: 2,
  width: 16,
  heads: 2,
  context: 32,
  vocabulary: 40,
  seed: 7n,
  precision: "float64",
};

export const CROSS_ENTROPY: NativeLoss = {
  type: "cross_entropy",
  clipLow: 0,
  clipHigh: 0,
  beta: 0,
  aggregation: "fixed_horizon",
  sequenceRatio: false,
};

export const ADAM: NativeAdam = {
  learningRate: 1e-2,
  beta1: 0.9,
  beta2: 0.95,
  eps: 1e-8,
  weightDecay: 0,
  gradClipNorm: 0,
};

/** Rows of the given lengths; the first third of each is left out, like a prompt. */
export function batchOf(lengths: readonly number[], seed = 1, vocabulary = TINY.vocabulary): NativeBatch {
  const random = seededRandom(seed);
  const token = () => Math.floor(random() * vocabulary);
  const rows = lengths.map((length) => Array.from({ length: length + 1 }, token));
  return {
    tokens: Int32Array.from(rows.flatMap((row) => row.slice(0, -1))),
    targets: Int32Array.from(rows.flatMap((row) => row.slice(1))),
    weights: Float64Array.from(
      lengths.flatMap((length) => Array.from({ length }, (_, t) => (t < length / 3 ? 0 : 1))),
    ),
    offsets: Int32Array.from([0, ...lengths].map((_, i) => lengths.slice(0, i).reduce((a, b) => a + b, 0))),
  };
}

/** Numbers of a saved part. */
export function numbers(part: Uint8Array, precision: NativeConfig["precision"] = "float64"): Float64Array {
  const bytes = part.slice().buffer;
  return precision === "float64" ? new Float64Array(bytes) : Float64Array.from(new Float32Array(bytes));
}

export async function parameters(session: NativeSession): Promise<Float64Array> {
  return numbers((await session.save(false)).parts[0]!);
}

/** A session with these parameters. */
export function sessionWith(values: Float64Array, config = TINY): Promise<NativeSession> {
  const state: NativeState = { step: 0, parts: [new Uint8Array(values.slice().buffer)] };
  return trainer.createSession(config, state);
}

/** The accumulated gradients: a step that changes nothing leaves them in the first moment. */
export async function gradientsOf(session: NativeSession): Promise<Float64Array> {
  await session.optimStep({ ...ADAM, learningRate: 0, beta1: 0 });
  return numbers((await session.save(true)).parts[1]!);
}
