// The losses built into the service: their options, the rows they read, and their names on the wire.

import { describe, InputError } from "../errors.ts";
import { choice, type Rules, real, wireFields } from "./fields.ts";
import type { NumberRowName } from "./sample.ts";

/** A loss that the service computes itself. Thresholds left out take the service's defaults. */
export type LossConfig =
  /** Sum of weighted negative log-likelihoods over the trained tokens of the batch. */
  | { readonly type: "cross_entropy" }
  /** Policy gradient with the unclipped ratio. */
  | { readonly type: "importance_sampling" }
  /** Ratio bounds: `clipLowThreshold` at most 1, `clipHighThreshold` at least 1. */
  | {
      readonly type: "ppo" | "cispo";
      readonly clipLowThreshold?: number | undefined;
      readonly clipHighThreshold?: number | undefined;
    }
  /** As `ppo`; `beta` weighs the KL term to the reference and, above 0, needs `referenceLogprobs`. */
  | {
      readonly type: "grpo";
      readonly clipLowThreshold?: number | undefined;
      readonly clipHighThreshold?: number | undefined;
      readonly beta?: number | undefined;
      readonly aggType?: "fixed_horizon" | "token_mean" | "sequence_mean" | undefined;
      readonly ratioType?: "token" | "sequence" | undefined;
    }
  /** `beta` weighs the squared log-ratio to the sampler. */
  | { readonly type: "dro"; readonly beta: number }
  /** Bounds in probability, from 0 to 1. Exists in the wire format `loss_fn_inputs` only. */
  | {
      readonly type: "dppo";
      readonly deltaLow?: number | undefined;
      readonly deltaHigh?: number | undefined;
    };

interface LossRow {
  readonly params: Rules;
  /** Member of `loss_inputs` that holds the loss's own rows; undefined where it has none. */
  readonly inputs: `${string}_inputs` | undefined;
  readonly required?: readonly string[];
}

const clip = { clipLowThreshold: real(-Infinity, 1), clipHighThreshold: real(1) };

const LOSSES: Readonly<Record<LossConfig["type"], LossRow>> = {
  cross_entropy: { params: {}, inputs: undefined },
  importance_sampling: { params: {}, inputs: "importance_sampling_inputs" },
  ppo: { params: clip, inputs: "ppo_inputs" },
  cispo: { params: clip, inputs: "cispo_inputs" },
  grpo: {
    params: {
      ...clip,
      beta: real(0),
      aggType: choice("GRPO_LOSS_AGGREGATION_TYPE_", ["fixed_horizon", "token_mean", "sequence_mean"]),
      ratioType: choice("GRPO_LOSS_RATIO_TYPE_", ["token", "sequence"]),
    },
    inputs: "grpo_inputs",
  },
  dro: { params: { beta: real(0) }, inputs: "dro_inputs", required: ["beta"] },
  dppo: { params: { deltaLow: real(0, 1), deltaHigh: real(0, 1) }, inputs: undefined },
};

/** What a pass over samples needs to know of its loss. */
export interface LossPlan {
  /** The `loss` member of the body; undefined for a custom pass, which has none. */
  readonly wire: Readonly<Record<string, unknown>> | undefined;
  /** Rows that each sample must have and that are sent, in this order. */
  readonly rows: readonly NumberRowName[];
  /** Member of `loss_inputs` for all rows but the weights; undefined where there are none. */
  readonly inputs: string | undefined;
  /** Whether the wire format `loss_inputs` knows the loss. */
  readonly inLossInputs: boolean;
  /** Whether the loss of a batch is the sum of the losses of its parts. */
  readonly isSum: boolean;
  /** Whether samples are sent as in a custom pass. */
  readonly asCustom: boolean;
}

/** Gradients come with the request: only targets and weights are sent. */
export const CUSTOM: LossPlan = {
  wire: undefined,
  rows: ["weights"],
  inputs: undefined,
  inLossInputs: true,
  isSum: true,
  asCustom: true,
};

export function planLoss(loss: LossConfig): LossPlan {
  const { type, ...options } = (loss ?? {}) as LossConfig;
  const row = Object.hasOwn(LOSSES, String(type)) ? LOSSES[type] : undefined;
  if (row === undefined) {
    throw new InputError("loss.type", `expected ${Object.keys(LOSSES).join(", ")}, got ${describe(type)}`);
  }
  const params = wireFields("loss", options, row.params, row.required);
  const wire: Record<string, unknown> = { type: `LOSS_TYPE_${type.toUpperCase()}` };
  if (Object.keys(params).length > 0) wire[`${type}_params`] = params;
  const rows: NumberRowName[] = ["weights"];
  if (type !== "cross_entropy") rows.push("advantages", "logprobs");
  if (type === "grpo" && Number(params.beta ?? 0) > 0) rows.push("referenceLogprobs");
  return {
    wire,
    rows,
    inputs: row.inputs,
    inLossInputs: type !== "dppo",
    isSum: type === "cross_entropy",
    asCustom: rows.length === CUSTOM.rows.length,
  };
}
