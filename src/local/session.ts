// One training session: its state as the API shows it, and the work of its operations.
import { randomUUID } from "node:crypto";
import type {
  NativeAdam,
  NativeBatch,
  NativeLoss,
  NativeLossInputs,
  NativeSampling,
  NativeSession,
} from "./binding.ts";
import type { Checkpoint, CheckpointStore } from "./checkpoints.ts";
import { OperationQueue, type Work } from "./operation.ts";
import type { ModelResources } from "./resources.ts";
import { sampleOutput } from "./sampling.ts";

export interface SessionDetails {
  displayName?: string;
  metadata: Record<string, Record<string, string>>;
  readonly loraConfig?: object;
  readonly resumedFrom?: string;
}

export class TrainingSession {
  readonly id = randomUUID();
  readonly resources: ModelResources;
  readonly operations = new OperationQueue();
  status: "RUNNING" | "STOPPING" | "STOPPED" = "RUNNING";
  readonly #native: NativeSession;
  readonly #checkpoints: CheckpointStore;
  readonly #details: SessionDetails;
  readonly #createdAt = new Date().toISOString();
  #updatedAt = this.#createdAt;
  #step: number;
  #published: number;
  readonly #saved: Checkpoint[] = [];

  constructor(
    resources: ModelResources,
    native: NativeSession,
    checkpoints: CheckpointStore,
    step: number,
    details: SessionDetails,
  ) {
    this.resources = resources;
    this.#native = native;
    this.#checkpoints = checkpoints;
    this.#step = step;
    this.#published = step;
    this.#details = details;
  }

  /** Empty strings clear what they name; what is left out stays. */
  update(displayName: string | undefined, metadata: SessionDetails["metadata"]): void {
    if (displayName !== undefined) this.#details.displayName = displayName;
    for (const [name, values] of Object.entries(metadata)) {
      const merged = Object.entries({ ...this.#details.metadata[name], ...values });
      this.#details.metadata[name] = Object.fromEntries(merged.filter(([, value]) => value !== ""));
    }
    this.#touch();
  }

  /** Fails what has not begun and ends what runs, which leaves the weights as they were. */
  async stop(): Promise<void> {
    if (this.status === "STOPPED") return;
    this.status = this.operations.isIdle ? "STOPPED" : "STOPPING";
    this.#touch();
    this.#native.dispose();
    await this.operations.close();
    this.status = "STOPPED";
    this.#touch();
  }

  forwardBackward(
    batch: NativeBatch,
    loss: NativeLoss,
    inputs: NativeLossInputs,
    options: { readonly forwardOnly: boolean; readonly outputs: boolean },
  ): Work {
    return async () => {
      const result = await this.#native.forwardBackward(batch, loss, inputs, options.forwardOnly);
      // An overflowed ratio makes its mean infinite, which JSON cannot say.
      const metrics = Object.entries(result.metrics).filter(([, value]) => Number.isFinite(value));
      return () => ({
        loss: result.loss,
        metrics: Object.fromEntries(metrics),
        loss_fn_outputs: options.outputs ? rowsOf(batch, result.logprobs).map(logprobsOutput) : [],
      });
    };
  }

  customForwardBackward(batch: NativeBatch, gradients: Float64Array): Work {
    return async () => {
      await this.#native.customForwardBackward(batch, gradients);
      return () => ({});
    };
  }

  optimStep(adam: NativeAdam): Work {
    return async () => {
      const step = await this.#native.optimStep(adam);
      this.#step = step;
      this.#touch();
      return () => ({ step: String(step) });
    };
  }

  weightsSync(): Work {
    return async () => {
      const version = await this.#native.publish();
      this.#published = version;
      this.#touch();
      return () => ({ weights_version: String(version) });
    };
  }

  sample(request: NativeSampling): Work {
    return async () => {
      const samples = await this.#native.sample(request);
      return () => sampleOutput(request, samples);
    };
  }

  /** Gradients that no step has applied yet are not part of a checkpoint. */
  checkpoint(withOptimizer: boolean): Work {
    return async () => {
      const state = await this.#native.save(withOptimizer);
      const checkpoint = await this.#checkpoints.save(this.resources.baseModel, this.id, state);
      this.#saved.push(checkpoint);
      this.#touch();
      return () => ({ checkpoint: checkpointBody(checkpoint) });
    };
  }

  body(): object {
    const { displayName, metadata, loraConfig, resumedFrom } = this.#details;
    const saved = (type: Checkpoint["type"]) =>
      this.#saved.filter((checkpoint) => checkpoint.type === type).map(checkpointBody);
    return {
      id: this.id,
      base_model: this.resources.baseModel,
      model_resources_id: this.resources.id,
      created_at: this.#createdAt,
      updated_at: this.#updatedAt,
      created_by: "local",
      status: `TRAINING_SESSION_STATUS_${this.status}`,
      step: String(this.#step),
      policy_state: {
        trainer_step: String(this.#step),
        applied_weights_version: String(this.#published),
        target_weights_version: String(this.#published),
        pending_publish: this.operations.has("weights-sync"),
      },
      training_checkpoints: saved("CHECKPOINT_TYPE_TRAINING"),
      inference_checkpoints: saved("CHECKPOINT_TYPE_INFERENCE"),
      metadata,
      ...(displayName ? { display_name: displayName } : {}),
      ...(loraConfig ? { lora_config: loraConfig } : {}),
      ...(resumedFrom ? { resume_from_checkpoint_id: resumedFrom } : {}),
    };
  }

  #touch(): void {
    this.#updatedAt = new Date().toISOString();
  }
}

function checkpointBody({ id, createdAt, step }: Checkpoint): object {
  return { id, created_at: createdAt, step: String(step) };
}

function rowsOf(batch: NativeBatch, values: Float64Array): Float64Array[] {
  return Array.from(batch.offsets.subarray(1), (end, i) => values.subarray(batch.offsets[i], end));
}

function logprobsOutput(row: Float64Array): object {
  return { tensors: { logprobs: { data: Array.from(row), dtype: "float32" } } };
}
