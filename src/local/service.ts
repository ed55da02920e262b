// What the trainer offers and what it holds: its model, resources, sessions and checkpoints.
import type { NativeConfig, TrainerAddon } from "./binding.ts";
import { CheckpointStore } from "./checkpoints.ts";
import { fields, flag, int64, type Read, real, text, whole } from "./fields.ts";
import type { ModelOptions } from "./options.ts";
import { invalid, missing, Problem } from "./problem.ts";
import { ModelResources, Registry, type ResourceRequest } from "./resources.ts";
import { MAX_BATCH_SIZE } from "./samples.ts";
import { DEFAULT_MAX_TOKENS } from "./sampling.ts";
import { type SessionDetails, TrainingSession } from "./session.ts";
import { Storage } from "./storage.ts";

export class Service {
  readonly config: NativeConfig;
  readonly endOfText: number;
  readonly modelName: string;
  readonly resources = new Registry<ModelResources>("model resource");
  readonly sessions = new Registry<TrainingSession>("training session");
  readonly storage = new Storage();
  readonly checkpoints: CheckpointStore;
  readonly #trainer: TrainerAddon;

  constructor(trainer: TrainerAddon, modelName: string, model: ModelOptions, dataFolder: string) {
    const { endOfText, ...config } = model;
    this.config = config;
    this.endOfText = endOfText;
    this.modelName = modelName;
    this.#trainer = trainer;
    this.checkpoints = new CheckpointStore(dataFolder, trainer, config);
  }

  /** The `data` of supported-models. */
  supportedModels(): object[] {
    const limits = { max_batch_size: MAX_BATCH_SIZE, max_seq_length: this.config.context };
    const gpu_type = "B200-SXM";
    return [
      {
        base_model: this.modelName,
        // The API has no word for a CPU.
        default_gpu_type: gpu_type,
        compute_configs: [
          {
            gpu_type,
            generator_config: {
              context_length: this.config.context,
              sampling_defaults: { logprobs: 1, max_tokens: DEFAULT_MAX_TOKENS, n: 1, temperature: 1 },
            },
            trainer_config: { full: limits, lora: { ...limits, max_rank: 1024 } },
          },
        ],
      },
    ];
  }

  createResources(request: ResourceRequest): ModelResources {
    return this.resources.add(new ModelResources(request));
  }

  /**
   * @throws {Problem} 409 if sessions run on it and `force` is not given.
   */
  async stopResources(resources: ModelResources, force: boolean): Promise<void> {
    const attached = this.sessions.all().filter((session) => session.resources === resources);
    const active = attached.filter(({ status }) => status !== "STOPPED");
    if (active.length > 0 && !force) {
      throw new Problem(
        409,
        "sessions_active",
        `${active.length} sessions run on it; stop them or use force=true`,
      );
    }
    resources.stop();
    await Promise.all(active.map((session) => session.stop()));
  }

  /** The session is RUNNING when this resolves. */
  async createSession(body: unknown): Promise<TrainingSession> {
    const request = fields(body, "");
    const resources = this.resources.get(
      request.required("model_resources_id", text()),
      "model_resources_id",
    );
    const lora = request.optional("lora_config", loraConfig);
    const details: SessionDetails = {
      ...sessionNames(body),
      ...(resources.loraEnabled ? { loraConfig: lora ?? {} } : {}),
    };
    const checkpointId = request.optional("resume_from_checkpoint_id", text());
    const loadOptimizer = request.optional("load_optimizer", flag);
    if (resources.status !== "READY") {
      throw new Problem(
        409,
        "resources_not_ready",
        "the model resource has been stopped",
        "model_resources_id",
      );
    }
    if (!checkpointId) {
      const native = await this.#trainer.createSession(this.config);
      return this.sessions.add(new TrainingSession(resources, native, this.checkpoints, 0, details));
    }
    const { native, step } = await this.#resume(checkpointId, loadOptimizer);
    const resumed = { ...details, resumedFrom: checkpointId };
    return this.sessions.add(new TrainingSession(resources, native, this.checkpoints, step, resumed));
  }

  async #resume(id: string, loadOptimizer: boolean | undefined) {
    const param = "resume_from_checkpoint_id";
    if (!this.checkpoints.has(id)) throw missing("checkpoint", id, param);
    try {
      const { checkpoint, state: saved } = await this.checkpoints.load(id);
      if (checkpoint.type === "CHECKPOINT_TYPE_INFERENCE" && loadOptimizer !== undefined) {
        throw invalid(
          "load_optimizer",
          "an inference checkpoint has no optimizer state; leave the field out",
        );
      }
      const state = loadOptimizer === false ? { step: 0, parts: saved.parts.slice(0, 1) } : saved;
      return { native: await this.#trainer.createSession(this.config, state), step: state.step };
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      if (code !== "ERR_CHECKPOINT" && code !== "ERR_INPUT") throw error;
      throw new Problem(422, "checkpoint_unreadable", message, param);
    }
  }

  /** Stops all sessions; resolves when what runs has ended. */
  async close(): Promise<void> {
    await Promise.all(this.sessions.all().map((session) => session.stop()));
  }
}

/** What a session's creation and update have in common. */
export function sessionNames(body: unknown): Pick<SessionDetails, "displayName" | "metadata"> {
  const request = fields(body, "");
  const displayName = request.optional("display_name", text(128));
  const metadata = request.optional("metadata", sessionMetadata) ?? {};
  return { metadata, ...(displayName === undefined ? {} : { displayName }) };
}

const sessionMetadata: Read<SessionDetails["metadata"]> = (value, path) => {
  const wandb = fields(value, path).optional("wandb", (item, at) => {
    const members = fields(item, at);
    return Object.fromEntries(members.names().map((name) => [name, members.required(name, text())]));
  });
  return wandb ? { wandb } : {};
};

/** Accepted and given back; the local trainer always trains all weights. */
const loraConfig: Read<object> = (value, path) => {
  const lora = fields(value, path);
  const seed = lora.optional("seed", int64);
  return Object.fromEntries(
    Object.entries({
      rank: lora.optional("rank", whole(1, 1024)),
      alpha: lora.optional("alpha", real(0)),
      dropout: lora.optional("dropout", real(0, 1)),
      seed: seed === undefined ? undefined : String(seed),
      train_unembed: lora.optional("train_unembed", flag) ?? true,
    }).filter(([, member]) => member !== undefined),
  );
};
