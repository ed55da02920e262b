// The built-in losses of a request: their parameters, defaults and limits.
import type { NativeLoss } from "./binding.ts";
import { Fields, fields, oneOf, type Read, real } from "./fields.ts";
import { invalid } from "./problem.ts";
import type { RowPlan } from "./samples.ts";

const TYPES = {
  LOSS_TYPE_CROSS_ENTROPY: "cross_entropy",
  LOSS_TYPE_IMPORTANCE_SAMPLING: "importance_sampling",
  LOSS_TYPE_PPO: "ppo",
  LOSS_TYPE_CISPO: "cispo",
  LOSS_TYPE_GRPO: "grpo",
  LOSS_TYPE_DRO: "dro",
} as const;

const PARAMS = [
  "cross_entropy_params",
  "grpo_params",
  "ppo_params",
  "cispo_params",
  "dro_params",
  "dppo_params",
];

/** Bounds of the ratio where the request names none. */
const CLIP = { cispo: [0, 4], other: [0.8, 1.2] } as const;

const AGGREGATIONS = {
  GRPO_LOSS_AGGREGATION_TYPE_UNSPECIFIED: "fixed_horizon",
  GRPO_LOSS_AGGREGATION_TYPE_FIXED_HORIZON: "fixed_horizon",
  GRPO_LOSS_AGGREGATION_TYPE_TOKEN_MEAN: "token_mean",
  GRPO_LOSS_AGGREGATION_TYPE_SEQUENCE_MEAN: "sequence_mean",
} as const;

const keys = <T extends object>(map: T) => Object.keys(map) as (keyof T & string)[];

/** A LossConfig, and the rows that it reads from the samples. */
export const loss: Read<{ readonly loss: NativeLoss; readonly rows: RowPlan }> = (value, path) => {
  const config = fields(value, path);
  if (config.optional("type", (type) => type) === "LOSS_TYPE_DPPO") {
    throw invalid(config.pathOf("type"), "LOSS_TYPE_DPPO is not supported by the local trainer");
  }
  const type = TYPES[config.required("type", oneOf(keys(TYPES)))];
  for (const name of PARAMS) {
    if (name !== `${type}_params` && config.has(name)) {
      throw invalid(config.pathOf(name), `expected no parameters of another loss beside type ${type}`);
    }
  }
  const params = config.optional(`${type}_params`, fields) ?? new Fields({}, `${path}.${type}_params`);
  return { loss: build(type, params), rows: plan(type, params) };
};

function build(type: NativeLoss["type"], params: Fields): NativeLoss {
  const [low, high] = type === "cispo" ? CLIP.cispo : CLIP.other;
  const clips = type === "ppo" || type === "cispo" || type === "grpo";
  const aggregation = params.optional("agg_type", oneOf(keys(AGGREGATIONS)));
  const ratio = params.optional(
    "ratio_type",
    oneOf(["GRPO_LOSS_RATIO_TYPE_TOKEN", "GRPO_LOSS_RATIO_TYPE_SEQUENCE"]),
  );
  return {
    type,
    clipLow: (clips ? params.optional("clip_low_threshold", real(0, 1)) : undefined) ?? low,
    clipHigh: (clips ? params.optional("clip_high_threshold", real(1)) : undefined) ?? high,
    beta: beta(type, params),
    aggregation: type === "grpo" && aggregation ? AGGREGATIONS[aggregation] : "fixed_horizon",
    sequenceRatio: type === "grpo" && ratio === "GRPO_LOSS_RATIO_TYPE_SEQUENCE",
  };
}

function beta(type: NativeLoss["type"], params: Fields): number {
  if (type === "dro") return params.required("beta", real(0));
  return (type === "grpo" ? params.optional("beta", real(0)) : undefined) ?? 0;
}

function plan(type: NativeLoss["type"], params: Fields): RowPlan {
  if (type === "cross_entropy") return { required: [], optional: [], weights: "required" };
  const reference = type !== "grpo" ? "none" : beta(type, params) > 0 ? "required" : "optional";
  return {
    member: `${type}_inputs`,
    required: [
      "logprobs",
      "advantages",
      ...(reference === "required" ? ["reference_logprobs" as const] : []),
    ],
    optional: reference === "optional" ? ["reference_logprobs"] : [],
    weights: "optional",
  };
}
