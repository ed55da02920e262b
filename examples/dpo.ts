// Direct preference optimisation on pairs of answers, against the model that it began from.
//
//   npx tsx examples/dpo.ts --from CHECKPOINT        a checkpoint that examples/sft.ts printed
//
// Killed and started again it goes on from its last checkpoint, with the same numbers.
import { join } from "node:path";
import { parseArgs } from "node:util";
import {
  batchAt,
  buildPairs,
  computeCustomForwardBackward,
  dpo,
  loadRun,
  Progress,
  referenceLogprobs,
  saveRun,
} from "tokengrad";
import { mean, open, readPairs, sums } from "./shared.ts";

const { values } = parseArgs({
  options: {
    folder: { type: "string", default: "runs/dpo" },
    steps: { type: "string", default: "60" },
    every: { type: "string", default: "20" },
    rate: { type: "string", default: "3e-4" },
    beta: { type: "string", default: "0.1" },
    /** Checkpoint whose weights it begins from; without, the untrained model. */
    from: { type: "string" },
  },
});
const [steps, every, learningRate] = [Number(values.steps), Number(values.every), Number(values.rate)];
const runFile = join(values.folder, "run.json");

const run = await loadRun<{ curve: number[] }>(runFile);
await using place = await open({ weightsOf: values.from, resume: run?.checkpointId });
const { baseModel, engine, session } = place;

const pairs = await readPairs();
const [train, heldOut] = [buildPairs(pairs.train), buildPairs(pairs.heldOut)];

// The reference is the model before its first step: a run that goes on takes its log-probabilities from the disk.
const progress = new Progress("reference", train.samples.length);
const fromReference = {
  cache: { folder: join(values.folder, "reference"), model: baseModel, checkpoint: values.from },
  onlyCached: run !== undefined,
};
const reference = await referenceLogprobs(session, train.samples, {
  ...fromReference,
  onProgress: (report) => progress.update(report),
});
const before = sums(await referenceLogprobs(session, heldOut.samples, fromReference));
const set = train.with({ reference });
const kept = run?.kept ?? { curve: [] };

/** Share of the held-out pairs whose chosen answer has become likelier by more than the rejected one; 0.5 is chance. */
async function accuracy(): Promise<number> {
  const now = sums(await referenceLogprobs(session, heldOut.samples));
  const gain = (sample: number) => now[sample]! - before[sample]!;
  return mean(heldOut.groups.map((_, pair) => +(gain(2 * pair) > gain(2 * pair + 1))));
}

for (let step = run?.step ?? 0; step < steps; step++) {
  const { samples, groups, inputs } = set.pick(batchAt(step, { count: set.length, size: 12 }));
  const options = { engine, groups, inputs, params: { beta: Number(values.beta) } };
  const { loss, metrics } = await computeCustomForwardBackward(session, samples, dpo(), options);
  await session.optimStep({ adam: { learningRate } });
  kept.curve.push(loss);
  const figures = `accuracy ${metrics.accuracy.toFixed(2)}  margin ${metrics.margin.toFixed(3)}`;
  console.log(`step ${step + 1}/${steps}  loss ${loss.toFixed(4)}  ${figures}`);
  if ((step + 1) % every === 0 || step + 1 === steps) {
    const { checkpointId } = await saveRun(runFile, session, { step: step + 1, kept });
    console.log(`checkpoint ${checkpointId}`);
  }
}
console.log(`held-out preference accuracy: ${(await accuracy()).toFixed(3)}`);
