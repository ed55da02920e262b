// The small bodies: options of optimStep, weightsSync and sample, checked and named as on the wire.

import { InputError } from "../errors.ts";
import { choice, flag, group, int64, integer, type Rules, real, texts, wireFields } from "./fields.ts";

/** Numbers left out take the service's defaults. `gradClipNorm` 0 means no clipping. */
export interface AdamOptions {
  readonly learningRate?: number | undefined;
  readonly beta1?: number | undefined;
  readonly beta2?: number | undefined;
  readonly eps?: number | undefined;
  readonly weightDecay?: number | undefined;
  readonly gradClipNorm?: number | undefined;
}

/** `adam` tunes the parameters that Muon does not. */
export interface MuonOptions {
  readonly learningRate?: number | undefined;
  readonly momentum?: number | undefined;
  readonly newtonSchulzSteps?: number | undefined;
  readonly weightDecay?: number | undefined;
  readonly gradClipNorm?: number | undefined;
  readonly adam?: AdamOptions | undefined;
}

/** One of the two, or neither for the service's defaults. */
export interface OptimizerOptions {
  readonly adam?: AdamOptions | undefined;
  readonly muon?: MuonOptions | undefined;
}

export interface WeightsSyncOptions {
  /**
   * `synchronous` (default) is done when it resolves; `background_publish` publishes once running samples have
   * finished; `pipeline` publishes while they go on under the new weights.
   */
  readonly type?: "synchronous" | "background_publish" | "pipeline" | undefined;
}

/** Values left out take the model's sampling defaults. */
export interface SamplingOptions {
  /** Completions per prompt. */
  readonly numSamples?: number | undefined;
  /** @unit tokens */
  readonly maxTokens?: number | undefined;
  readonly temperature?: number | undefined;
  /** From 0 to 1. */
  readonly topP?: number | undefined;
  /** -1 for all tokens. */
  readonly topK?: number | undefined;
  readonly stop?: readonly string[] | undefined;
  /** 64-bit integer; the same seed, prompt and weights give the same completion. */
  readonly seed?: number | bigint | string | undefined;
  /** Also gives the log-probability of each prompt token. */
  readonly promptLogprobs?: boolean | undefined;
  /** Also gives the likeliest tokens at each prompt position; 0 to 20. */
  readonly topkPromptLogprobs?: number | undefined;
  /** Also gives a key to the experts chosen; mixture-of-experts models only. */
  readonly returnRoutedExperts?: boolean | undefined;
}

const NOT_NEGATIVE = real(0);
const FRACTION = real(0, 1);

const ADAM: Rules = {
  learningRate: NOT_NEGATIVE,
  beta1: FRACTION,
  beta2: FRACTION,
  eps: NOT_NEGATIVE,
  weightDecay: NOT_NEGATIVE,
  gradClipNorm: NOT_NEGATIVE,
};

const OPTIMIZER: Rules = {
  adam: group(ADAM),
  muon: group({
    learningRate: NOT_NEGATIVE,
    momentum: FRACTION,
    newtonSchulzSteps: integer(1),
    weightDecay: NOT_NEGATIVE,
    gradClipNorm: NOT_NEGATIVE,
    adam: group(ADAM),
  }),
};

const WEIGHTS_SYNC: Rules = {
  type: choice("WEIGHT_SYNC_TYPE_", ["synchronous", "background_publish", "pipeline"]),
};

const SAMPLING: Rules = {
  numSamples: integer(1),
  maxTokens: integer(1),
  temperature: NOT_NEGATIVE,
  topP: FRACTION,
  topK: integer(-1),
  stop: texts,
  seed: int64,
  promptLogprobs: flag,
  topkPromptLogprobs: integer(0, 20),
  returnRoutedExperts: flag,
};

export function optimStepFields(optimizer: OptimizerOptions): object {
  const { adam: adam_params, muon: muon_params } = wireFields("optimStep", optimizer, OPTIMIZER);
  if (adam_params && muon_params) throw new InputError("optimStep", "expected adam or muon, got both");
  return { adam_params, muon_params };
}

export function weightsSyncFields(sync: WeightsSyncOptions): object {
  const { type } = wireFields("weightsSync", { ...sync, type: sync.type ?? "synchronous" }, WEIGHTS_SYNC);
  return { weight_sync_type: type };
}

/** All of a sample body but its `model_inputs`. */
export function samplingFields(sampling: SamplingOptions): object {
  const { num_samples, prompt_logprobs, topk_prompt_logprobs, return_routed_experts, ...sampling_params } =
    wireFields("sample", sampling, SAMPLING);
  return { num_samples, prompt_logprobs, topk_prompt_logprobs, return_routed_experts, sampling_params };
}
