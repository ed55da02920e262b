// Reinforcement learning with rollouts: group relative policy optimisation, or PPO on the same advantages.
//
//   npx tsx examples/grpo.ts --from CHECKPOINT --loss ppo --max-staleness 1
//
// Killed and started again it goes on from its last checkpoint, with the same numbers. With --max-staleness above 0 the next
// answers are sampled while the last ones are trained on.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import {
  batchAt,
  buildGroups,
  computeCustomForwardBackward,
  groupNormAdvantages,
  grpo,
  loadRun,
  ppo,
  type Reward,
  rolloutSteps,
  saveRun,
} from "tokengrad";
import { decode, mean, open, readPairs } from "./shared.ts";

const { values } = parseArgs({
  options: {
    folder: { type: "string", default: "runs/grpo" },
    loss: { type: "string", default: "grpo" },
    steps: { type: "string", default: "40" },
    every: { type: "string", default: "10" },
    rate: { type: "string", default: "3e-4" },
    /** Optimizer steps on the same rollouts. */
    passes: { type: "string", default: "1" },
    "max-staleness": { type: "string", default: "0" },
    /** Checkpoint whose weights it begins from; without, the untrained model. */
    from: { type: "string" },
  },
});
const [steps, every, passes] = [Number(values.steps), Number(values.every), Number(values.passes)];
const runFile = join(values.folder, "run.json");
const loss = values.loss === "ppo" ? ppo() : grpo();

const PROMPTS = 8;
const COMPLETIONS = 8;
/** Length that the reward asks for, in bytes. */
const WANTED = 36;

/** Half for an answer that ends as a sentence, half for how near its length is to the one asked for. */
const reward: Reward = async ({ tokens }) => {
  const answer = decode(tokens);
  // A judge over the network would be asked here; if it fails, the group is lost and not the run.
  await sleep(1);
  return (answer.endsWith(".\n") ? 0.5 : 0) + 0.5 * Math.exp(-Math.abs(answer.trim().length - WANTED) / 12);
};

const run = await loadRun<{ curve: number[] }>(runFile);
await using place = await open({ weightsOf: values.from, resume: run?.checkpointId });
const { engine, session } = place;
const { train } = await readPairs();
const kept = run?.kept ?? { curve: [] };

const rollouts = rolloutSteps(session, {
  steps: [run?.step ?? 0, steps],
  promptsAt: (step) =>
    batchAt(step, { count: train.length, size: PROMPTS }).map((pair) => train[pair]!.prompt),
  samplingAt: (step) => ({
    numSamples: COMPLETIONS,
    maxTokens: 80,
    temperature: 1,
    stop: ["\n"],
    seed: step,
  }),
  reward,
  maxStaleness: Number(values["max-staleness"]),
  // So that a run that goes on from a checkpoint samples what this one samples behind it.
  drainEvery: every,
});
for await (const { step, rollouts: groupsOfStep, failures, stale } of rollouts) {
  const rewards = groupsOfStep.flatMap((rollout) => rollout.rewards);
  if (rewards.length > 0) {
    const { samples, groups, inputs } = buildGroups(groupsOfStep);
    const advantages = groupNormAdvantages(rewards, { groups });
    const options = { engine, groups, inputs: { ...inputs, advantages } };
    for (let pass = 0; pass < passes; pass++) {
      const { metrics } = await computeCustomForwardBackward(session, samples, loss, options);
      await session.optimStep({ adam: { learningRate: Number(values.rate) } });
      const figures = `reward ${mean(rewards).toFixed(4)}  ratio ${metrics.ratioMean.toFixed(4)}`;
      const lost = `lost ${failures.length}  stale ${stale}  alike ${metrics.zeroVarianceGroups}`;
      console.log(`step ${step + 1}/${steps}  ${figures}  ${lost}`);
    }
    kept.curve.push(mean(rewards));
  }
  if ((step + 1) % every === 0 || step + 1 === steps) {
    const { checkpointId } = await saveRun(runFile, session, { step: step + 1, kept });
    console.log(`checkpoint ${checkpointId}`);
  }
}
const [first, last] = [kept.curve.slice(0, 5), kept.curve.slice(-5)].map(mean);
console.log(`mean reward: ${first!.toFixed(4)} at first, ${last!.toFixed(4)} at last`);
