// Makes a loss and a batch of a golden case.
import type { BatchInput } from "../engine/batch.ts";
import { describe } from "../errors.ts";
import type { Loss } from "../loss/define.ts";
import { CaseError, type LossCase, type Rows } from "./cases.ts";
import { READY_LOSSES } from "./ready-losses.ts";

export interface SetUp {
  readonly loss: Loss;
  /** The case's sample that each sample of the batch is; none where it has no gradient in the case. */
  readonly samples: readonly (number | undefined)[];
  readonly weights: Rows;
  readonly logprobs: Rows;
  readonly groups: number;
  readonly inputs: Readonly<Record<string, BatchInput>>;
  readonly params: Readonly<Record<string, number>>;
}

/** The golden name of each input of the losses. */
const inputsOf = ({ inputs }: LossCase): Record<string, Rows | readonly number[] | undefined> => ({
  reference: inputs.ref_logp,
  old: inputs.old_logp,
  rollout: inputs.rollout_logp,
  teacher: inputs.teacher_logp,
  advantages: inputs.token_advantages ?? inputs.advantages,
  rewards: inputs.rewards,
  optimalValue: inputs.v_star,
  winProbability: inputs.win_probability,
  labels: inputs.labels?.map((desirable) => (desirable ? 1 : -1)),
});

/**
 * Pairs and triples become groups: a sample of several stands in the batch once for each. The mismatched samples of KTO's
 * baseline, known by their sums alone, become samples of one token.
 */
export function setUp(golden: LossCase): SetUp {
  const { inputs, params } = golden;
  if (!Object.hasOwn(READY_LOSSES, golden.loss)) {
    throw new CaseError(`loss: expected the identifier of a ready loss, got ${describe(golden.loss)}`);
  }
  const loss = READY_LOSSES[golden.loss]!(golden);
  const groups = inputs.pairs ?? inputs.triples;
  const samples: (number | undefined)[] = groups?.flat() ?? inputs.logp.map((_, sample) => sample);
  const pick = <T>(values: readonly T[]): T[] => samples.map((sample) => values[sample!]!);
  // What a case lacks is missed by the engine, by the name of the loss's input.
  const own = Object.entries(inputsOf(golden)).filter(([name, values]) => name in loss.inputs && values);
  const batch = {
    weights: pick(inputs.mask),
    logprobs: pick(inputs.logp),
    inputs: Object.fromEntries(own.map(([name, values]) => [name, pick<unknown>(values!)])) as Record<
      string,
      unknown[]
    >,
  };
  if (inputs.model_chosen !== undefined) batch.inputs.policyWins = inputs.model_chosen.map(Number);
  inputs.kl_logp?.forEach((logprob, i) => {
    samples.push(undefined);
    batch.weights.push([1]);
    batch.logprobs.push([logprob]);
    batch.inputs.reference!.push([inputs.kl_ref_logp![i]!]);
    batch.inputs.labels!.push(0);
  });
  return {
    loss,
    samples,
    ...batch,
    inputs: batch.inputs as SetUp["inputs"],
    groups: groups === undefined ? 1 : groups[0]!.length,
    // A fixed shift is what so many samples have given that these no longer count.
    params:
      typeof params.delta === "number" && "seenMean" in loss.params
        ? { seenMean: params.delta, seenCount: 1e18 }
        : {},
  };
}
