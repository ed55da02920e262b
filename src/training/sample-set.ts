// Samples in their groups, with what a loss needs to know of them: a data set, or a batch picked from one.
import type { Sample } from "../client/sample.ts";
import type { BatchInput } from "../engine/batch.ts";
import { readGroups } from "../engine/layout.ts";
import { describe, InputError } from "../errors.ts";
import { checkNames } from "../names.ts";
import { isNumberList, isRowList } from "../rows/rows.ts";

/** Inputs of a loss by name: one row per sample, or one number per sample or group. */
export type SetInputs<Names extends string> = { readonly [Name in Names]: BatchInput };

export interface SampleSetOptions<Names extends string> {
  readonly samples: readonly Sample[];
  /** Samples per group, neighbours in the list: one size for all, or a list of sizes. Default 1. */
  readonly groups?: number | readonly number[];
  readonly inputs?: SetInputs<Names>;
}

/**
 * Samples and their bookkeeping, kept together however they are picked. Nothing is copied; it never changes.
 *
 * @example
 * const batch = pairs.pick([4, 0, 7]);
 * const { samples, groups, inputs } = batch;
 * await computeCustomForwardBackward(session, samples, dpo(), { engine, groups, inputs });
 */
export class SampleSet<Names extends string = never> {
  readonly samples: readonly Sample[];
  /** Size of each group. */
  readonly groups: readonly number[];
  readonly inputs: SetInputs<Names>;
  /** First sample of each group. */
  readonly #starts: readonly number[];

  /** @throws {InputError} if groups or inputs do not go with the samples. */
  constructor(options: SampleSetOptions<Names>) {
    checkNames("sampleSet", options, ["samples", "groups", "inputs"]);
    this.samples = options.samples;
    this.groups = [...readGroups(options.groups, this.samples.length)];
    let start = 0;
    this.#starts = this.groups.map((size) => {
      start += size;
      return start - size;
    });
    this.inputs = (options.inputs ?? {}) as SetInputs<Names>;
    for (const [name, input] of Object.entries<unknown>(this.inputs)) this.#check(name, input);
  }

  /** Number of groups. */
  get length(): number {
    return this.groups.length;
  }

  /** Number of positions with a weight above 0. */
  get trainedTokens(): number {
    return this.samples.reduce(
      (total, { weights }) => total + Array.from(weights).filter((weight) => weight > 0).length,
      0,
    );
  }

  /**
   * The same samples with further inputs, such as `reference`.
   *
   * @throws {InputError} if an input does not go with the samples, naming the sample.
   */
  with<More extends string>(inputs: SetInputs<More>): SampleSet<Names | More> {
    const all = { ...this.inputs, ...inputs } as SetInputs<Names | More>;
    return new SampleSet({ samples: this.samples, groups: this.groups, inputs: all });
  }

  /**
   * Some of the groups, by their numbers, as often as they are named.
   *
   * @throws {InputError} if there is no such group.
   */
  pick(groups: readonly number[]): SampleSet<Names> {
    const members = groups.flatMap((group, i) => {
      const size = this.groups[group];
      if (size === undefined) {
        const most = this.length - 1;
        throw new InputError(`pick[${i}]`, `expected a group from 0 to ${most}, got ${describe(group)}`);
      }
      return Array.from({ length: size }, (_, member) => this.#starts[group]! + member);
    });
    const picked = ([name, input]: [string, BatchInput]) => {
      const chosen = isRowList(input) || input.length === this.samples.length ? members : groups;
      return [name, chosen.map((index) => input[index]!)];
    };
    return new SampleSet({
      samples: members.map((sample) => this.samples[sample]!),
      groups: groups.map((group) => this.groups[group]!),
      inputs: Object.fromEntries(
        Object.entries<BatchInput>(this.inputs).map(picked),
      ) as unknown as SetInputs<Names>,
    });
  }

  #check(name: string, input: unknown): void {
    const path = `inputs.${name}`;
    const count = this.samples.length;
    if (!isRowList(input)) {
      if (isNumberList(input) && (input.length === count || input.length === this.length)) return;
      throw new InputError(
        path,
        `expected ${count} rows, ${count} numbers (per sample) or ${this.length} (per group), got ${describe(input)}`,
      );
    }
    if (input.length !== count) {
      throw new InputError(path, `expected ${count} rows, one per sample, got ${input.length}`);
    }
    for (const [sample, row] of input.entries()) {
      const { length } = this.samples[sample]!.weights;
      if (!isNumberList(row) || row.length !== length) {
        throw new InputError(path, `expected a row of ${length} numbers, got ${describe(row)}`, { sample });
      }
    }
  }
}
