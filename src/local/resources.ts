// Model resources: what a session attaches to. Here they are only a name and a state; nothing is provisioned.
import { randomUUID } from "node:crypto";
import { type Fields, fields, flag, oneOf, type Read, text, whole } from "./fields.ts";
import { invalid, missing } from "./problem.ts";

const GPU_TYPES = ["B200-SXM", "H100-80GB"] as const;

export interface ResourceRequest {
  readonly baseModel: string;
  readonly gpuType: (typeof GPU_TYPES)[number];
  readonly generatorReplicas: number;
  readonly loraEnabled: boolean;
  /** Seconds. Local resources do not expire, so it is only given back. */
  readonly inactiveTimeout: number;
}

/** The body that creates resources or asks for their price. */
export function resourceRequest(models: readonly string[]): Read<ResourceRequest> {
  return (value, path) => {
    const body = fields(value, path);
    const baseModel = body.required("base_model", text(256));
    if (!models.includes(baseModel)) {
      throw invalid(
        body.pathOf("base_model"),
        `expected ${models.join(" or ")}, got ${JSON.stringify(baseModel)}`,
      );
    }
    if (body.has("base_weights_ref")) {
      throw invalid(
        body.pathOf("base_weights_ref"),
        "there is no model registry here; resume from a checkpoint",
      );
    }
    refuseMuon(body);
    const compute = body.optional("compute_config", fields);
    return {
      baseModel,
      gpuType: compute?.optional("gpu_type", oneOf(GPU_TYPES)) ?? "B200-SXM",
      generatorReplicas: compute?.optional("num_generator_replicas", whole(0, 1024)) ?? 1,
      loraEnabled: body.optional("lora_enabled", flag) ?? true,
      inactiveTimeout: body.optional("inactive_timeout", whole(300, 86_400)) ?? 3600,
    };
  };
}

function refuseMuon(body: Fields): void {
  const optimizer = body.optional("optimizer_config", fields);
  optimizer?.optional("adam", fields);
  if (optimizer?.has("muon")) {
    throw invalid(optimizer.pathOf("muon"), "Muon is not supported by the local trainer, which steps AdamW");
  }
}

export class ModelResources {
  readonly id = randomUUID();
  status: "READY" | "STOPPED" = "READY";
  readonly #request: ResourceRequest;
  readonly #createdAt = new Date().toISOString();
  #updatedAt = this.#createdAt;

  constructor(request: ResourceRequest) {
    this.#request = request;
  }

  get baseModel(): string {
    return this.#request.baseModel;
  }

  get hasGenerator(): boolean {
    return this.#request.generatorReplicas > 0;
  }

  get loraEnabled(): boolean {
    return this.#request.loraEnabled;
  }

  stop(): void {
    if (this.status === "STOPPED") return;
    this.status = "STOPPED";
    this.#updatedAt = new Date().toISOString();
  }

  body(): object {
    return {
      id: this.id,
      base_model: this.baseModel,
      compute_config: {
        gpu_type: this.#request.gpuType,
        num_generator_replicas: this.#request.generatorReplicas,
      },
      created_at: this.#createdAt,
      updated_at: this.#updatedAt,
      created_by: "local",
      inactive_timeout: this.#request.inactiveTimeout,
      lora_enabled: this.loraEnabled,
      optimizer_config: { adam: {} },
      status: `MODEL_RESOURCES_STATUS_${this.status}`,
      status_details: {},
    };
  }
}

/** Things by id, in the order in which they were made. */
export class Registry<T extends { readonly id: string }> {
  readonly #items = new Map<string, T>();
  readonly #what: string;

  constructor(what: string) {
    this.#what = what;
  }

  add(item: T): T {
    this.#items.set(item.id, item);
    return item;
  }

  /**
   * @throws {Problem} 404 if there is none; `param` names the field that held the id.
   */
  get(id: string, param?: string): T {
    const item = this.#items.get(id);
    if (item === undefined) throw missing(this.#what, id, param);
    return item;
  }

  /** Newest first. */
  all(): T[] {
    return [...this.#items.values()].reverse();
  }
}
