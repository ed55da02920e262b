// Model resources: the hardware and the base model that sessions train on.

import type { Answer } from "./answer.ts";
import { jsonBody } from "./body.ts";
import { type Call, type CallOptions, runCall } from "./call.ts";
import type { Core } from "./core.ts";
import { choice, choices, flag, group, integer, type Rules, text, wireFields } from "./fields.ts";
import { OpenResources } from "./open-resources.ts";
import { List, type ListOptions } from "./pages.ts";
import { type StatusError, statusError } from "./results.ts";
import type { Request } from "./sender.ts";
import { pathSegment } from "./transport.ts";
import { type StartOptions, startAndWait } from "./waiting.ts";

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
  readonly status: ModelResourcesStatus | (string & {});
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
  /** When it stops if nothing uses it before; set while READY. Every operation moves it on. */
  readonly expiresAt: string | undefined;
  readonly createdBy: string | undefined;
  readonly error: StatusError | undefined;
}

export interface ModelResourcesListOptions extends ListOptions {
  readonly status?: readonly ModelResourcesStatus[] | undefined;
  /** Id of a user, or `me`. */
  readonly createdBy?: string | undefined;
}

/** What resources cost while they are READY. */
export interface Cost {
  /** ISO 4217. */
  readonly currency: string;
  readonly pricePerHour: number;
}

export type ModelResourcesStatus = (typeof STATUSES)[number];

const STATUSES = ["PENDING", "CREATING", "READY", "ERROR", "STOPPED", "STOPPING"] as const;

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

const LIST: Rules = {
  after: text,
  createdBy: text,
  limit: integer(1, 100),
  status: choices("MODEL_RESOURCES_STATUS_", STATUSES),
};

const PATH = "/rl/model-resources";

export class ModelResourcesApi {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /** Asks for a resource. The answer comes at once; on the service it becomes READY some time later. */
  async start(resource: ModelResourcesOptions, options: CallOptions = {}): Promise<ModelResources> {
    return this.#ask("modelResources.start", creation("modelResources.start", resource), options);
  }

  /**
   * Asks for a resource and waits until it is READY, by default without a time limit. If anything fails after its
   * creation, it is stopped; so it is at the end of the scope of `await using`.
   *
   * @throws {StartError} if it ends in another state.
   */
  async open(resource: ModelResourcesOptions, options: StartOptions = {}): Promise<OpenResources> {
    const name = "modelResources.open";
    const request = creation(name, resource);
    const send = async (call: Call, asked: Request) =>
      modelResources(await this.#core.sender.send(asked, call));
    const found = await startAndWait(this.#core, name, options, Infinity, {
      what: "model resources",
      ready: "READY",
      onTheWay: ["PENDING", "CREATING"],
      create: (call) => send(call, request),
      look: (id, call) => send(call, { method: "GET", path: `${PATH}/${pathSegment(`${name}.id`, id)}` }),
      stop: (id) => this.stop(id, { force: true }),
    });
    return new OpenResources(this.#core, this, found);
  }

  async get(id: string, options: CallOptions = {}): Promise<ModelResources> {
    return this.#ask("modelResources.get", { method: "GET", path: path("get", id) }, options);
  }

  /** All resources of the project, newest first. */
  list(options: ModelResourcesListOptions = {}): List<ModelResources> {
    return new List(this.#core, "modelResources.list", PATH, options, LIST, modelResources);
  }

  /** Stops a resource. While sessions are active it fails unless `force` is set, which stops them too. */
  async stop(
    id: string,
    options: CallOptions & { readonly force?: boolean | undefined } = {},
  ): Promise<ModelResources> {
    const query = options.force ? "?force=true" : "";
    const request = { method: "POST", path: `${path("stop", id)}/stop${query}` } as const;
    return this.#ask("modelResources.stop", request, options, ["force"]);
  }

  /** Keeps a resource for at least `seconds` from now; never moves the end of its time to an earlier one. */
  async extendExpiry(id: string, seconds: number, options: CallOptions = {}): Promise<ModelResources> {
    const name = "modelResources.extendExpiry";
    const body = jsonBody(wireFields(name, { seconds }, { seconds: integer(1) }));
    const request = { method: "POST", path: `${path("extendExpiry", id)}/extend-expiry`, body } as const;
    return this.#ask(name, request, options);
  }

  /** What such a resource would cost. Creates nothing. */
  async estimateCost(resource: ModelResourcesOptions, options: CallOptions = {}): Promise<Cost> {
    const name = "modelResources.estimateCost";
    const { once: _, ...request } = creation(name, resource);
    return runCall(name, options, this.#core.timeoutMs, async (call) => {
      const answer = await this.#core.sender.send({ ...request, path: `${PATH}/estimate-cost` }, call);
      return {
        currency: answer.at("currency").string(),
        pricePerHour: answer.at("price_per_hour").number(),
      };
    });
  }

  #ask(
    name: string,
    request: Request,
    options: CallOptions,
    names?: readonly string[],
  ): Promise<ModelResources> {
    const run = async (call: Call) => modelResources(await this.#core.sender.send(request, call));
    return runCall(name, options, this.#core.timeoutMs, run, names);
  }
}

const path = (method: string, id: string) => `${PATH}/${pathSegment(`modelResources.${method}.id`, id)}`;

/** The request that creates a resource; it has no key, so that a repeat might create a second one. */
function creation(name: string, resource: ModelResourcesOptions): Request {
  const fields = wireFields(name, resource, RULES, ["baseModel"]);
  const { inactive_timeout_seconds: inactive_timeout, ...rest } = fields;
  return { method: "POST", path: PATH, body: jsonBody({ ...rest, inactive_timeout }), once: true };
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
