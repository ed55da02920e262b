// Rollouts: completions of prompts and their rewards, sampled while the policy trains if they may be a little old.
import type { SamplingOptions } from "../client/requests.ts";
import type { Sequence } from "../client/results.ts";
import type { TokenRow } from "../client/sample.ts";
import type { Session } from "../client/session.ts";
import { describe, InputError } from "../errors.ts";
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
  readonly signal?: AbortSignal | undefined;
}

/** The weights that a sampling call takes where the service does not say. */
const policyVersionOf = (segments: readonly { readonly version: number }[], current: number): number =>
  segments.length === 0 ? current : Math.min(...segments.map(({ version }) => version));

/** Samples completions of prompts from the weights that were synced last, and scores them. */
export async function sampleRollouts(
  session: Session,
  { prompts, sampling, reward, signal = new AbortController().signal }: SampleRolloutsOptions,
  currentVersion = 0,
): Promise<Sampled> {
  const { results } = await session.sample(prompts, sampling, { signal });
  const failures: Error[] = [];
  const scored = await Promise.all(
    results.map(async ({ sequences, policySegments }, index): Promise<Rollout | undefined> => {
      const prompt = prompts[index]!;
      const score = async (sequence: Sequence) => {
        const value: unknown = await reward(sequence, { prompt, index, signal });
        if (typeof value === "number" && Number.isFinite(value)) return value;
        throw new InputError("reward", `prompt ${index}: expected a finite number, got ${describe(value)}`);
      };
      try {
        const rewards = await Promise.all(sequences.map(score));
        const policyVersion = policyVersionOf(policySegments, currentVersion);
        return { prompt, completions: sequences, rewards, policyVersion };
      } catch (error) {
        signal.throwIfAborted();
        failures.push(error instanceof Error ? error : new Error(String(error)));
        return undefined;
      }
    }),
  );
  return { rollouts: scored.filter((rollout) => rollout !== undefined), failures };
}

export interface RolloutOptions extends Omit<SampleRolloutsOptions, "prompts" | "sampling"> {
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
  for (const [name, value, least] of [
    ["maxStaleness", maxStaleness, 0],
    ["drainEvery", drainEvery, 1],
  ] as const) {
    if (!Number.isSafeInteger(value) || value < least) {
      const expected = `expected a whole number of at least ${least}`;
      throw new InputError(`rollouts.${name}`, `${expected}, got ${describe(value)}`);
    }
  }
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
        const batch = { prompts: promptsAt(next), sampling: samplingAt(next), reward, signal };
        const sampled = sampleRollouts(session, batch, weightsVersion);
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
