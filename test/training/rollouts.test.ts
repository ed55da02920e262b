// Rollouts against a scripted service: what is sampled when, what is too old, and what a bad reward costs.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { type RolloutOptions, rolloutSteps, sampleRollouts } from "../../src/training/rollouts.ts";
import { completed, failed, SESSION, serve, testClient } from "../client/server.ts";

interface Script {
  /** How many versions behind the published weights the service samples. */
  readonly lag?: number;
  /** Whether it says which weights sampled. */
  readonly saysVersion?: boolean;
  /** Number of the sampling that fails. */
  readonly failsAt?: number;
}

/** A service that counts steps and publishes; `log` tells what it was asked to do. */
async function startService({ lag = 0, saysVersion = true, failsAt }: Script = {}) {
  const log: string[] = [];
  let [step, published, samplings] = [0, 0, 0];
  const server = await serve(({ path, body }) => {
    const kind = path.split("/operations/")[1];
    if (kind === undefined) return SESSION;
    if (kind === "optim-step") {
      step++;
      log.push("step");
      return completed({ step });
    }
    if (kind === "weights-sync") {
      published = step;
      log.push("sync");
      return completed({ weights_version: published });
    }
    const { model_inputs: prompts, num_samples, sampling_params } = JSON.parse(body);
    log.push(`sample ${sampling_params.seed}`);
    if (samplings++ === failsAt) return failed({ code: "SAMPLE_FAILED", message: "no" });
    const sequence = { tokens: ["7"], logprobs: [-1], stop_reason: "STOP_REASON_STOP" };
    const result = {
      sequences: Array(num_samples).fill(sequence),
      ...(saysVersion && { policy_segments: [{ version: Math.max(0, published - lag), start_token: 0 }] }),
    };
    return completed({ results: prompts.map(() => result) });
  });
  return { session: await testClient(server).sessions.attach("s-1"), log };
}

const OPTIONS: RolloutOptions = {
  steps: [0, 4],
  promptsAt: () => [[1], [2]],
  samplingAt: (seed) => ({ numSamples: 2, maxTokens: 1, seed }),
  reward: () => 1,
};

/** Runs all steps as a loop would, and tells of each how old its rollouts were and how many were dropped. */
async function run(script: Script, options: Partial<RolloutOptions>, passes = 1) {
  const { session, log } = await startService(script);
  const seen: { step: number; ages: number[]; stale: number }[] = [];
  for await (const one of rolloutSteps(session, { ...OPTIONS, ...options })) {
    const ages = one.rollouts.map(({ policyVersion }) => one.policyVersion - policyVersion);
    seen.push({ step: one.step, ages, stale: one.stale });
    for (let pass = 0; pass < passes; pass++) await session.optimStep();
  }
  return { log, seen };
}

test("by default a step samples when it begins, from the weights of the step before", async () => {
  const { log, seen } = await run({}, {});
  expect(log).toEqual([0, 1, 2, 3].flatMap((step) => ["sync", `sample ${step}`, "step"]));
  expect(seen).toEqual([0, 1, 2, 3].map((step) => ({ step, ages: [0, 0], stale: 0 })));
});

test("the next rollouts are sampled while the policy trains, and are so many steps old", async () => {
  const { log, seen } = await run({}, { maxStaleness: 1 });
  const parts = log.join(" ").split("sync").slice(1);
  expect(parts.map((part) => part.match(/\d/g)?.join(""))).toEqual(["01", "2", "3", undefined]);
  expect(seen.map(({ ages }) => ages[0])).toEqual([0, 1, 1, 1]);

  const twice = await run({}, { maxStaleness: 1 }, 2);
  expect(twice.seen.map(({ ages, stale }) => [ages[0], stale])).toEqual([
    [0, 0],
    [2, 0],
    [2, 0],
    [2, 0],
  ]);
  const further = await run({}, { maxStaleness: 2 });
  expect(further.seen.map(({ ages }) => ages[0])).toEqual([0, 1, 2, 2]);
});

test("nothing is sampled beyond a checkpoint before it is made", async () => {
  const { log, seen } = await run({}, { maxStaleness: 3, drainEvery: 2 });
  const parts = log.join(" ").split("sync").slice(1);
  expect(parts.map((part) => part.match(/\d/g)?.join(""))).toEqual(["01", undefined, "23", undefined]);
  expect(seen.map(({ ages }) => ages[0])).toEqual([0, 1, 0, 1]);
  // A run that is resumed at the checkpoint samples what this one sampled behind it.
  const resumed = await run({}, { maxStaleness: 3, drainEvery: 2, steps: [2, 4] });
  expect(resumed.seen.map(({ ages }) => ages[0])).toEqual([0, 1]);
});

test("what the service sampled from too old weights is dropped and counted", async () => {
  const { seen } = await run({ lag: 2 }, { maxStaleness: 1 });
  expect(seen.map(({ stale, ages }) => [stale, ages.length])).toEqual([
    [0, 2],
    [0, 2],
    [2, 0],
    [2, 0],
  ]);
  const silent = await run({ lag: 2, saysVersion: false }, {});
  expect(silent.seen.every(({ stale }) => stale === 0)).toBe(true);
});

test("a reward may be slow; one that throws or is no number costs its group alone", async () => {
  const { session } = await startService();
  const { rollouts, failures } = await sampleRollouts(session, {
    prompts: [[1], [2], [3], [4]],
    sampling: { numSamples: 2 },
    reward: async (completion, { prompt, index }) => {
      await sleep(5);
      if (index === 1) throw new Error("the judge is asleep");
      if (index === 2) return Number.NaN;
      return completion.tokens.length + Number(prompt[0]);
    },
  });
  expect(rollouts.map(({ prompt, rewards }) => [prompt, rewards])).toEqual([
    [[1], [2, 2]],
    [[4], [5, 5]],
  ]);
  expect(failures.map(({ message }) => message).sort()).toEqual([
    "reward: prompt 2: expected a finite number, got NaN",
    "the judge is asleep",
  ]);
});

test("a sampling that fails ahead of time is met when its step comes", async () => {
  const { session } = await startService({ failsAt: 1 });
  const steps = rolloutSteps(session, { ...OPTIONS, maxStaleness: 3 });
  expect((await steps.next()).value).toMatchObject({ step: 0 });
  await sleep(20);
  await expect(steps.next()).rejects.toMatchObject({ name: "OperationFailedError" });
});

test("breaking off does not wait for rewards that never come, and tells those that listen", async () => {
  const { session } = await startService();
  const signals: AbortSignal[] = [];
  const reward: RolloutOptions["reward"] = (_, { signal }) =>
    // The four completions of the first step are scored, those of the second never.
    signals.push(signal) > 4 ? new Promise<number>(() => {}) : 1;
  for await (const { step } of rolloutSteps(session, { ...OPTIONS, maxStaleness: 1, reward })) {
    expect(step).toBe(0);
    while (signals.length < 8) await sleep(1);
    break;
  }
  expect(signals).toHaveLength(8);
  expect(signals.every(({ aborted }) => aborted)).toBe(true);
});

test("a signal stops the steps", async () => {
  const { session } = await startService();
  const controller = new AbortController();
  onTestFinished(() => controller.abort());
  const steps = rolloutSteps(session, { ...OPTIONS, signal: controller.signal });
  await steps.next();
  controller.abort();
  await expect(steps.next()).rejects.toMatchObject({ code: "ERR_ABORTED" });
});

test.each([
  [{ maxStaleness: -1 }, "rollouts.maxStaleness: expected a whole number of at least 0, got -1"],
  [{ maxStaleness: 0.5 }, "rollouts.maxStaleness"],
  [{ drainEvery: 0 }, "rollouts.drainEvery: expected a whole number of at least 1, got 0"],
  [{ staleness: 1 }, "rollouts.staleness"],
])("%j is refused", async (options, message) => {
  const { session } = await startService();
  await expect(rolloutSteps(session, { ...OPTIONS, ...options }).next()).rejects.toThrow(message);
});
