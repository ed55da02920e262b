// Supervised fine-tuning on the chosen answers, held near the model that it began from.
//
//   npx tokengrad serve                      in another terminal; set the two variables that it prints
//   npx tsx examples/sft.ts --steps 120
//
// Killed and started again it goes on from its last checkpoint, with the same numbers.
import { join } from "node:path";
import { parseArgs } from "node:util";
import {
  batchAt,
  buildResponses,
  computeCustomForwardBackward,
  loadRun,
  Progress,
  referenceLogprobs,
  regularizedSft,
  saveRun,
} from "tokengrad";
import { open, type Pair, readPairs, sums } from "./shared.ts";

const { values } = parseArgs({
  options: {
    folder: { type: "string", default: "runs/sft" },
    steps: { type: "string", default: "120" },
    every: { type: "string", default: "20" },
    rate: { type: "string", default: "2e-3" },
    /** Checkpoint whose weights it begins from; without, the untrained model. */
    from: { type: "string" },
  },
});
const [steps, every, learningRate] = [Number(values.steps), Number(values.every), Number(values.rate)];
const runFile = join(values.folder, "run.json");

const run = await loadRun<{ before: number; curve: number[] }>(runFile);
await using place = await open({ weightsOf: values.from, resume: run?.checkpointId });
const { baseModel, engine, session } = place;

const pairs = await readPairs();
const build = (list: Pair[]) =>
  buildResponses(list.map(({ prompt, chosen }) => ({ prompt, response: chosen })));
const [train, heldOut] = [build(pairs.train), build(pairs.heldOut)];

/** Mean negative log-likelihood per trained token, in nats. */
const heldOutNll = async () =>
  -sums(await referenceLogprobs(session, heldOut.samples)).reduce((a, b) => a + b) / heldOut.trainedTokens;

const progress = new Progress("reference", train.samples.length);
const reference = await referenceLogprobs(session, train.samples, {
  cache: { folder: join(values.folder, "reference"), model: baseModel, checkpoint: values.from },
  onlyCached: run !== undefined,
  onProgress: (report) => progress.update(report),
});
const set = train.with({ reference });
const kept = run?.kept ?? { before: await heldOutNll(), curve: [] };

for (let step = run?.step ?? 0; step < steps; step++) {
  const { samples, groups, inputs } = set.pick(batchAt(step, { count: set.length, size: 24 }));
  const options = { engine, groups, inputs, params: { beta: 0.01 } };
  const { loss, metrics } = await computeCustomForwardBackward(session, samples, regularizedSft(), options);
  await session.optimStep({ adam: { learningRate } });
  kept.curve.push(loss);
  console.log(`step ${step + 1}/${steps}  loss ${loss.toFixed(4)}  nll ${metrics.nll.toFixed(4)}`);
  if ((step + 1) % every === 0 || step + 1 === steps) {
    const { checkpointId } = await saveRun(runFile, session, { step: step + 1, kept });
    console.log(`checkpoint ${checkpointId}`);
  }
}
console.log(`held-out NLL: ${kept.before.toFixed(4)} before, ${(await heldOutNll()).toFixed(4)} after`);
