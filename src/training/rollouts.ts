// Rollouts: completions of prompts and their rewards, sampled while the policy trains if they may be a little old.
import type { SamplingOptions } from "../client/requests.ts";
import type { SampleResult, Sequence } from "../client/results.ts";
import type { TokenRow } from "../client/sample.ts";
import type { Session } from "../client/session.ts";
import { AbortError, describe, InputError } from "../errors.ts";
import { checkWhole } from "../losses/options.ts";
import { checkNames } from "../names.ts";

/** A prompt, its completions and their rewards: a record for `buildGroups`, and more. */
export interface Rollout {
  readonly prompt: TokenRow;
  readonly completions: readonly Sequence[];
  /** One per completion. */
  readonly rewards: readonly number[];
  /** The oldest weights that sampled any of it, in optimizer steps; that of the sampling call where the service says none. */
  readonly policyVersion: number;
}

/**
 * Scores a completion. It may take its time: all completions of a batch are scored at once. One that throws, or gives what is
 * no finite number, costs the group of its prompt.
 *
 * @param prompt Number of the prompt among those of its batch.
 */
export type Reward = (
  completion: Sequence,
  context: { readonly prompt: TokenRow; readonly index: number; readonly signal: AbortSignal },
) => number | Promise<number>;

/** What one sampling gave. */
export interface Sampled {
  readonly rollouts: readonly Rollout[];
  /** Why groups were lost, one error each. */
  readonly failures: readonly Error[];
}

export interface SampleRolloutsOptions {
  readonly prompts: readonly TokenRow[];
  readonly sampling: SamplingOptions;
  readonly reward: Reward;
  /** Weights that were published last, in optimizer steps: those of a rollout where the service says none. Default 0. */
  readonly publishedVersion?: number;
  readonly signal?: AbortSignal | undefined;
}

/** What a promise comes to, or a rejection as soon as the signal fires, whether or not the promise heeds it. */
async function unlessStopped<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const stopped = new AbortController();
  try {
    return await Promise.race([
      promise,
      new Promise<never>((_, reject) => {
        const stop = () => reject(new AbortError("rollouts: stopped", { cause: signal.reason }));
        if (signal.aborted) stop();
        signal.addEventListener("abort", stop, { signal: stopped.signal });
      }),
    ]);
  } finally {
    stopped.abort();
  }
}

/**
 * Samples completions of prompts from the weights that were published last, and scores them.
 *
 * @throws {TokengradError} of the client, if sampling fails; {AbortError} when the signal fires.
 */
export async function sampleRollouts(session: Session, options: SampleRolloutsOptions): Promise<Sampled> {
  checkNames("rollouts", options, ["prompts", "sampling", "reward", "publishedVersion", "signal"]);
  const { prompts, sampling, reward, publishedVersion = 0 } = options;
  const { signal = new AbortController().signal } = options;
  const { results } = await session.sample(prompts, sampling, { signal });

  const scoreGroup = async ({ sequences, policySegments }: SampleResult, index: number): Promise<Rollout> => {
    const prompt = prompts[index]!;
    const rewards = sequences.map(async (sequence) => {
      const value: unknown = await reward(sequence, { prompt, index, signal });
      if (typeof value === "number" && Number.isFinite(value)) return value;
      throw new InputError("reward", `prompt ${index}: expected a finite number, got ${describe(value)}`);
    });
    const versions = policySegments.map(({ version }) => version);
    const policyVersion = versions.length === 0 ? publishedVersion : Math.min(...versions);
    return { prompt, completions: sequences, rewards: await Promise.all(rewards), policyVersion };
  };
  const groups = await unlessStopped(Promise.allSettled(results.map(scoreGroup)), signal);
  return {
    rollouts: groups.flatMap((group) => (group.status === "fulfilled" ? [group.value] : [])),
    failures: groups.flatMap((group) => (group.status === "rejected" ? [asError(group.reason)] : [])),
  };
}

const asError = (reason: unknown): Error => (reason instanceof Error ? reason : new Error(String(reason)));

export interface RolloutOptions extends Pick<SampleRolloutsOptions, "reward" | "signal"> {
  /** First step and the one behind the last. */
  readonly steps: readonly [first: number, end: number];
  readonly promptsAt: (step: number) => readonly TokenRow[];
  /** Sampling of a step; give `seed` another value for each. */
  readonly samplingAt: (step: number) => SamplingOptions;
  /**
   * Publications that the weights of a rollout may be behind when it is trained on; there is one before each step. 0, the
   * default, samples when the step begins; above, the rollouts of so many steps ahead are sampled while the policy trains. What
   * turns out to be older is dropped and counted.
   */
  readonly maxStaleness?: number;
  /**
   * Steps after which nothing sampled is left over: those of the checkpoints, for a resumed run to have the same numbers.
   * Default: none.
   */
  readonly drainEvery?: number;
}

/** What a step trains on. */
export interface RolloutStep extends Sampled {
  readonly step: number;
  /** The weights that are trained now, in optimizer steps. */
  readonly policyVersion: number;
  /** Groups that were too old. */
  readonly stale: number;
}

function checkOptions(options: RolloutOptions): Required<Omit<RolloutOptions, "signal">> {
  const names = ["steps", "promptsAt", "samplingAt", "reward", "signal", "maxStaleness", "drainEvery"];
  checkNames("rollouts", options, names);
  const { maxStaleness = 0, drainEvery = Number.MAX_SAFE_INTEGER } = options;
  checkWhole("rollouts.maxStaleness", maxStaleness, 0);
  checkWhole("rollouts.drainEvery", drainEvery, 1);
  return { ...options, maxStaleness, drainEvery };
}

/**
 * The rollouts of each step in turn. At the beginning of a step the weights are published (`weightsSync`); the caller trains
 * on what it gets and calls `optimStep` before it asks for the next. Breaking off stops what is being sampled.
 *
 * @throws {InputError} for a bad option; {TokengradError} of the client, if sampling fails or is stopped.
 * @example
 * for await (const { rollouts, step } of rolloutSteps(session, { steps: [0, 100], promptsAt, samplingAt, reward })) {
 *   if (rollouts.length === 0) continue;
 *   const { samples, groups, inputs } = buildGroups(rollouts);
 * }
 */
export async function* rolloutSteps(
  session: Session,
  options: RolloutOptions,
): AsyncGenerator<RolloutStep, void, void> {
  const { steps, promptsAt, samplingAt, reward, maxStaleness, drainEvery } = checkOptions(options);
  const [first, end] = steps;
  const stopper = new AbortController();
  const signal = AbortSignal.any([stopper.signal, ...(options.signal ? [options.signal] : [])]);
  const ahead: Promise<Sampled>[] = [];
  const published = new Set<number>();
  const isFresh = ({ policyVersion }: Rollout) =>
    [...published].filter((version) => version > policyVersion).length <= maxStaleness;
  try {
    for (let step = first, next = first; step < end; step++) {
      // What was sampled ahead is waited for before the weights change, so that it does not matter how long it took.
      await ahead[0];
      const { weightsVersion } = await session.weightsSync({}, { signal });
      published.add(weightsVersion);
      const drained = (Math.floor(step / drainEvery) + 1) * drainEvery;
      for (const last = Math.min(step + maxStaleness + 1, drained, end); next < last; next++) {
        const [prompts, sampling] = [promptsAt(next), samplingAt(next)];
        const batch = { prompts, sampling, reward, publishedVersion: weightsVersion, signal };
        const sampled = sampleRollouts(session, batch);
        // A failure is met when its step comes; until then nobody waits for it.
        sampled.catch(() => undefined);
        ahead.push(sampled);
      }
      const { rollouts, failures } = await ahead.shift()!;
      const fresh = rollouts.filter(isFresh);
      const stale = rollouts.length - fresh.length;
      yield { step, policyVersion: weightsVersion, rollouts: fresh, failures, stale };
    }
  } finally {
    stopper.abort();
    await Promise.allSettled(ahead);
  }
}
