// How the time of each stage grows with the batch: the same rows, more and more often.
import { makeTokens } from "../batch.ts";
import { float32Text } from "../number-text.ts";
import type { Sized } from "../scaling.ts";
import { summarize, timed } from "../statistics.ts";
import { makeWorkload } from "../workload.ts";
import type { StageName } from "./contestants.ts";
import { layoutOf, partsOf, read, write } from "./ours.ts";
import { gradientsOf } from "./stages.ts";

const SAMPLES = 16;
const LENGTH = 2048;
/** 32 thousand. */
const BASE_TOKENS = SAMPLES * LENGTH;
/** Tokens to run in all, for each size of each stage. */
const EFFORT = 2 ** 26;

const repeat = <T>(rows: readonly T[], times: number): T[] =>
  Array.from({ length: times }, () => rows).flat();

/** Prepares a stage for so many times the base's tokens; what it gives runs once, and throws if the outcome is wrong. */
type Prepare = (times: number) => () => Promise<void>;

/** The bytes of rows that are written again and again are known from those of the rows. */
async function writing(
  rows: Parameters<typeof write>[0],
  rule: Parameters<typeof write>[1],
): Promise<Prepare> {
  const { bytes: once } = await write(rows, rule);
  return (times) => {
    const repeated = repeat(rows, times);
    const expected = times * (once - 1) + 1;
    return async () => {
      const text = await write(repeated, rule);
      if (text.bytes !== expected)
        throw new Error(`rows ${times} times: expected ${expected} bytes, got ${text.bytes}`);
      text.release();
    };
  };
}

function reading(logprobs: readonly Float32Array[]): Prepare {
  const entries = logprobs.map(
    (row) =>
      `{"tensors":{"logprobs":{"data":[${Array.from(row, float32Text).join(",")}],"dtype":"float32"}}}`,
  );
  const expected = Buffer.concat(logprobs.map((row) => Buffer.from(row.subarray(LENGTH / 4).slice().buffer)));
  const first = Buffer.from(`{"loss_fn_outputs":[${entries.join(",")}`);
  const next = Buffer.from(`,${entries.join(",")}`);
  return (times) => {
    const layout = layoutOf(SAMPLES * times, LENGTH);
    const output = new Float32Array((expected.length / 4) * times);
    const parts = [first, ...Array.from({ length: times - 1 }, () => next), Buffer.from("]}")].flatMap(
      partsOf,
    );
    return async () => {
      await read(parts, layout, output);
      const last = Buffer.from(output.buffer, (times - 1) * expected.length);
      if (!last.equals(expected)) throw new Error(`result ${times} times: expected other log-probabilities`);
    };
  };
}

async function stages(): Promise<Record<StageName, Prepare>> {
  const workload = makeWorkload(`${SAMPLES}x${LENGTH}`);
  const { float32, bfloat16 } = await gradientsOf(workload);
  const ids = makeTokens(workload.name).map((row) => row.subarray(1));
  return {
    float32: await writing(float32, "number"),
    bfloat16: await writing(bfloat16, "number"),
    ids: await writing(ids, "id"),
    logprobs: reading(workload.logprobs),
  };
}

/** From 32 thousand tokens up to `most`, twice as many each time. */
export async function measureScaling(most: number): Promise<ReadonlyMap<StageName, readonly Sized[]>> {
  const scaled = new Map<StageName, Sized[]>();
  for (const [stage, prepare] of Object.entries(await stages()) as [StageName, Prepare][]) {
    const sizes: Sized[] = [];
    for (let tokens = BASE_TOKENS; tokens <= most; tokens *= 2) {
      const run = prepare(tokens / BASE_TOKENS);
      const runs = Math.min(100, Math.max(7, EFFORT / tokens));
      const times: number[] = [];
      for (let n = -Math.ceil(runs / 4); n < runs; n++) {
        const [, time] = await timed(run);
        if (n >= 0) times.push(time);
      }
      sizes.push({ tokens, time: summarize(times) });
    }
    scaled.set(stage, sizes);
  }
  return scaled;
}
