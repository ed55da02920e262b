// The models that resources can be asked for, and their limits.

import type { Answer } from "./answer.ts";
import { type CallOptions, runCall } from "./call.ts";
import type { Core } from "./core.ts";

interface TrainerLimits {
  /** Samples of the largest global batch of one pass. */
  readonly maxBatchSize: number | undefined;
  /** @unit tokens */
  readonly maxSeqLength: number | undefined;
}

export interface ComputeConfig {
  readonly gpuType: string;
  /** Undefined where the model can only be trained. */
  readonly generator:
    | {
        /** Prompt and completion together. @unit tokens */
        readonly contextLength: number | undefined;
        /** What a sample takes where it says nothing, as the service words it. */
        readonly samplingDefaults: Readonly<Record<string, unknown>>;
      }
    | undefined;
  readonly trainer:
    | {
        readonly full: TrainerLimits | undefined;
        readonly lora: (TrainerLimits & { readonly maxRank: number | undefined }) | undefined;
      }
    | undefined;
}

export interface SupportedModel {
  readonly baseModel: string;
  readonly defaultGpuType: string;
  readonly computeConfigs: readonly ComputeConfig[];
}

export function supportedModels(core: Core, options: CallOptions): Promise<SupportedModel[]> {
  return runCall("supportedModels", options, core.timeoutMs, async (call) => {
    const answer = await core.sender.send({ method: "GET", path: "/rl/supported-models" }, call);
    return answer.at("data").items().map(model);
  });
}

function model(given: Answer): SupportedModel {
  return {
    baseModel: given.at("base_model").string(),
    defaultGpuType: given.at("default_gpu_type").string(),
    computeConfigs: (given.maybe("compute_configs")?.items() ?? []).map(computeConfig),
  };
}

function computeConfig(given: Answer): ComputeConfig {
  const generator = given.maybe("generator_config");
  const trainer = given.maybe("trainer_config");
  const lora = trainer?.maybe("lora");
  return {
    gpuType: given.at("gpu_type").string(),
    generator: generator && {
      contextLength: generator.maybe("context_length")?.integer(),
      samplingDefaults: generator.maybe("sampling_defaults")?.object() ?? {},
    },
    trainer: trainer && {
      full: limits(trainer.maybe("full")),
      lora: lora && { ...limits(lora)!, maxRank: lora.maybe("max_rank")?.integer() },
    },
  };
}

function limits(given: Answer | undefined): TrainerLimits | undefined {
  return (
    given && {
      maxBatchSize: given.maybe("max_batch_size")?.integer(),
      maxSeqLength: given.maybe("max_seq_length")?.integer(),
    }
  );
}
