// Model resources: the hardware and the base model that sessions train on.

import type { Answer } from "./answer.ts";
import { jsonBody } from "./body.ts";
import { type CallOptions, runCall } from "./call.ts";
import { choice, flag, group, integer, type Rules, text, wireFields } from "./fields.ts";
import type { Core } from "./operation.ts";
import { statusError } from "./results.ts";
import { pathSegment } from "./transport.ts";

export interface ModelResourcesOptions {
  /** Name of a supported model. */
  readonly baseModel: string;
  /** Weights to start from instead of the base model's own, such as `together://ml_…`. */
  readonly baseWeightsRef?: string | undefined;
  readonly computeConfig?:
    | {
        /** The model's default where left out. */
        readonly gpuType?: string | undefined;
        /** 0 for a resource that only trains and cannot sample. */
        readonly numGeneratorReplicas?: number | undefined;
      }
    | undefined;
  /** LoRA sessions, or one session over all weights. */
  readonly loraEnabled?: boolean | undefined;
  readonly optimizerConfig?:
    | { readonly adam: Readonly<Record<string, never>> }
    | { readonly muon: { readonly scalingStrategy?: "match_adam" | "original" | undefined } }
    | undefined;
  /** Idle time after which the resource stops; 300 to 86,400, by default 3,600. @unit seconds */
  readonly inactiveTimeoutSeconds?: number | undefined;
}

export interface ModelResources {
  readonly id: string;
  readonly baseModel: string;
  readonly baseWeightsRef: string | undefined;
  readonly status: "PENDING" | "CREATING" | "READY" | "ERROR" | "STOPPED" | "STOPPING" | (string & {});
  /** Place in the queue while PENDING. */
  readonly queuePosition: number | undefined;
  readonly gpuType: string | undefined;
  readonly numGeneratorReplicas: number | undefined;
  readonly loraEnabled: boolean | undefined;
  /** @unit seconds */
  readonly inactiveTimeoutSeconds: number | undefined;
  /** RFC 3339 times. */
  readonly createdAt: string | undefined;
  readonly updatedAt: string | undefined;
  readonly expiresAt: string | undefined;
  readonly createdBy: string | undefined;
  readonly error: { readonly code: string | undefined; readonly message: string | undefined } | undefined;
}

const RULES: Rules = {
  baseModel: text,
  baseWeightsRef: text,
  computeConfig: group({ gpuType: text, numGeneratorReplicas: integer(0) }),
  loraEnabled: flag,
  optimizerConfig: group({
    adam: group({}),
    muon: group({ scalingStrategy: choice("MUON_SCALING_STRATEGY_", ["match_adam", "original"]) }),
  }),
  inactiveTimeoutSeconds: integer(300, 86_400),
};

const PATH = "/rl/model-resources";

export class ModelResourcesApi {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /** Asks for a resource. The answer comes at once; on the service it becomes READY some time later. */
  async start(resource: ModelResourcesOptions, options: CallOptions = {}): Promise<ModelResources> {
    const { inactive_timeout_seconds: inactive_timeout, ...rest } = wireFields(
      "modelResources.start",
      resource,
      RULES,
      ["baseModel"],
    );
    return this.#post("modelResources.start", PATH, options, { ...rest, inactive_timeout });
  }

  async get(id: string, options: CallOptions = {}): Promise<ModelResources> {
    const path = `${PATH}/${pathSegment("modelResources.get.id", id)}`;
    return runCall("modelResources.get", options, this.#core.timeoutMs, async (call) =>
      modelResources(await this.#core.transport.send({ method: "GET", path }, call)),
    );
  }

  /** Stops a resource. While sessions are active it fails unless `force` is set, which stops them too. */
  async stop(
    id: string,
    options: CallOptions & { readonly force?: boolean | undefined } = {},
  ): Promise<ModelResources> {
    const path = `${PATH}/${pathSegment("modelResources.stop.id", id)}/stop${options.force ? "?force=true" : ""}`;
    return this.#post("modelResources.stop", path, options);
  }

  #post(
    name: string,
    path: string,
    options: CallOptions,
    body?: Record<string, unknown>,
  ): Promise<ModelResources> {
    return runCall(name, options, this.#core.timeoutMs, async (call) =>
      modelResources(
        await this.#core.transport.send({ method: "POST", path, body: body && jsonBody(body) }, call),
      ),
    );
  }
}

function modelResources(given: Answer): ModelResources {
  const compute = given.maybe("compute_config");
  return {
    id: given.at("id").string(),
    baseModel: given.at("base_model").string(),
    baseWeightsRef: given.maybe("base_weights_ref")?.string(),
    status: given.at("status").word("MODEL_RESOURCES_STATUS_"),
    queuePosition: given.maybe("status_details")?.maybe("queue_position")?.integer(),
    gpuType: compute?.maybe("gpu_type")?.string(),
    numGeneratorReplicas: compute?.maybe("num_generator_replicas")?.integer(),
    loraEnabled: given.maybe("lora_enabled")?.boolean(),
    inactiveTimeoutSeconds: given.maybe("inactive_timeout")?.integer(),
    createdAt: given.maybe("created_at")?.string(),
    updatedAt: given.maybe("updated_at")?.string(),
    expiresAt: given.maybe("expires_at")?.string(),
    createdBy: given.maybe("created_by")?.string(),
    error: statusError(given.maybe("error"), "MODEL_RESOURCES_ERROR_CODE_"),
  };
}
