// The losses that are measured, as the engine takes them. The peers have the same ones under the same names.
import type { BatchInput, BatchOptions } from "../src/engine/batch.ts";
import { defineLoss, type Loss, perSample, perToken } from "../src/loss/define.ts";
import { reinforce } from "../src/losses/policy-gradient.ts";
import { dpo } from "../src/losses/preference.ts";
import { regularizedSft } from "../src/losses/supervised.ts";
import type { Workload } from "./workload.ts";

/** GRPO: the clipped ratio, plus the k3 estimator of the KL to the reference. */
const grpo = () =>
  defineLoss({
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

export interface Case {
  /** Traces the loss anew. */
  readonly define: () => Loss;
  /** Samples per group. */
  readonly groups?: number;
  readonly inputs: (workload: Workload) => Record<string, BatchInput>;
}

export const CASES = {
  sft: { define: regularizedSft, inputs: ({ reference }) => ({ reference }) },
  reinforce: { define: reinforce, inputs: ({ advantages }) => ({ advantages }) },
  dpo: { define: dpo, groups: 2, inputs: ({ reference }) => ({ reference }) },
  grpo: {
    define: grpo,
    inputs: ({ old, reference, advantages }) => ({ old, reference, advantages }),
  },
} satisfies Record<string, Case>;

export type CaseName = keyof typeof CASES;

/** What `createBatch` takes to run a case on a workload. */
export function batchOptions({ groups, inputs }: Case, workload: Workload): BatchOptions {
  const { weights, logprobs } = workload;
  return { weights, logprobs, groups, inputs: inputs(workload) };
}
