// How the time of a fused GRPO step grows with the batch.
import { createBatch } from "../../src/engine/batch.ts";
import type { Engine } from "../../src/engine/engine.ts";
import type { Gradients } from "../../src/engine/gradients.ts";
import { batchOptions, CASES } from "../cases.ts";
import type { Sized } from "../scaling.ts";
import { summarize, timed } from "../statistics.ts";
import { makeWorkload, type Workload } from "../workload.ts";

export interface Scaled extends Sized {
  /** A quarter of the tokens is prompt. */
  readonly trainedTokens: number;
}

/** Samples of 2,048 positions that larger batches repeat: 32 thousand tokens. */
const BASE = makeWorkload("16x2048");
const BASE_TOKENS = 16 * 2048;
/** Tokens to run in all, for each size. */
const EFFORT = 2 ** 27;

function repeated(times: number): Workload {
  const repeat = <T>(rows: readonly T[]) => Array.from({ length: times }, () => rows).flat();
  return {
    name: `${16 * times}x2048`,
    weights: repeat(BASE.weights),
    logprobs: repeat(BASE.logprobs),
    old: repeat(BASE.old),
    reference: repeat(BASE.reference),
    advantages: Float32Array.from(repeat([...BASE.advantages])),
  };
}

/**
 * From 32 thousand tokens up to `most`, twice as many each time.
 *
 * @throws if the loss changes with the number of times that the same samples are repeated.
 */
export async function measureScaling(engine: Engine, most: number): Promise<Scaled[]> {
  const loss = CASES.grpo.define();
  const scaled: Scaled[] = [];
  let expected: number | undefined;
  for (let tokens = BASE_TOKENS; tokens <= most; tokens *= 2) {
    const batch = await createBatch(batchOptions(CASES.grpo, repeated(tokens / BASE_TOKENS)));
    const runs = Math.min(200, Math.max(9, EFFORT / tokens));
    const times: number[] = [];
    let into: Gradients<"float32"> | undefined;
    for (let run = -Math.ceil(runs / 4); run < runs; run++) {
      const [result, time] = await timed(() => engine.run(loss, batch, { into }));
      into = result.gradients;
      expected ??= result.loss;
      if (!(Math.abs(result.loss - (expected ?? 0)) < 1e-6)) {
        throw new Error(`grpo at ${tokens} tokens: expected a loss of ${expected}, got ${result.loss}`);
      }
      if (run >= 0) times.push(time);
    }
    scaled.push({ tokens, trainedTokens: batch.trainedTokens, time: summarize(times) });
  }
  return scaled;
}
