// Times the engine on losses in use: `npm run bench`. Answers are checked before anything is timed.
import { cpus } from "node:os";
import { type BatchInput, createBatch } from "../src/engine/batch.ts";
import { createEngine, type Engine } from "../src/engine/engine.ts";
import { defineLoss, type Loss, perSample, perToken } from "../src/loss/define.ts";
import { reinforce } from "../src/losses/policy-gradient.ts";
import { dpo } from "../src/losses/preference.ts";
import { regularizedSft } from "../src/losses/supervised.ts";
import { makeWorkload, WORKLOADS, type Workload } from "./workload.ts";

/** GRPO: the clipped ratio, plus the k3 estimator of the KL to the reference. */
const grpo = defineLoss({
  name: "grpo",
  inputs: { old: perToken(), reference: perToken(), advantages: perSample() },
  params: { clip: 0.2, beta: 0.04 },
  loss: ({ logprobs, old, reference, advantages, clip, beta }) => {
    const ratio = logprobs.sub(old).exp();
    const clipped = ratio.clamp(clip.neg().add(1), clip.add(1));
    const policy = ratio.mul(advantages).minimum(clipped.mul(advantages)).neg();
    const difference = reference.sub(logprobs);
    const kl = difference.exp().sub(difference).sub(1);
    return policy.add(kl.mul(beta)).mean("sample").mean();
  },
});

const CASES: readonly {
  loss: Loss;
  groups?: number;
  inputs: (workload: Workload) => Record<string, BatchInput>;
}[] = [
  { loss: regularizedSft(), inputs: ({ reference }) => ({ reference }) },
  { loss: reinforce(), inputs: ({ advantages }) => ({ advantages }) },
  { loss: dpo(), groups: 2, inputs: ({ reference }) => ({ reference }) },
  { loss: grpo, inputs: ({ old, reference, advantages }) => ({ old, reference, advantages }) },
];

const RUNS = 15;
const WARM_UP = 3;

const median = (values: readonly number[]) => [...values].sort((a, b) => a - b)[values.length >> 1]!;

async function time(work: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let run = 0; run < WARM_UP + RUNS; run++) {
    const start = performance.now();
    await work();
    if (run >= WARM_UP) times.push(performance.now() - start);
  }
  return median(times);
}

/** Largest difference of float32 gradients from float64 ones, over the largest gradient; throws if that is too much. */
async function check(engine: Engine, loss: Loss, options: Parameters<typeof createBatch>[0]): Promise<void> {
  const exact = await engine.run(loss, await createBatch({ ...options, precision: "float64" }), {
    dtype: "float64",
  });
  const rounded = await engine.run(loss, await createBatch(options));
  let largest = 0;
  let error = Math.abs(rounded.loss - exact.loss) / Math.max(1, Math.abs(exact.loss));
  const expected = new Float64Array(exact.gradients.buffer);
  for (const value of expected) largest = Math.max(largest, Math.abs(value));
  new Float32Array(rounded.gradients.buffer).forEach((value, i) => {
    error = Math.max(error, Math.abs(value - expected[i]!) / largest);
  });
  if (!(error < 2e-5)) throw new Error(`${loss.name}: float32 differs from float64 by ${error}`);
}

using engine = await createEngine();
const { device, executor, libtorch, threads } = engine.info;
console.log(
  `${cpus()[0]?.model ?? "unknown CPU"}, ${threads} threads; Node ${process.version}, libtorch ${libtorch}; ` +
    `executor ${executor} on ${device}; medians of ${RUNS} runs, ms\n`,
);
console.log(
  "| loss | samples x tokens | build batch | loss and gradients | ns a token |\n| --- | --- | --- | --- | --- |",
);
for (const name of WORKLOADS) {
  const workload = makeWorkload(name);
  for (const { loss, groups, inputs } of CASES) {
    const options = {
      weights: workload.weights,
      logprobs: workload.logprobs,
      groups,
      inputs: inputs(workload),
    };
    await check(engine, loss, options);
    const build = await time(() => createBatch(options));
    const batch = await createBatch(options);
    const run = await time(() => engine.run(loss, batch));
    const perToken = (run * 1e6) / batch.trainedTokens;
    console.log(
      `| ${loss.name} | ${name} | ${build.toFixed(2)} | ${run.toFixed(2)} | ${perToken.toFixed(1)} |`,
    );
  }
}
