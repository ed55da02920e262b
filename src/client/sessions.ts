// Training sessions: starting, looking at, stopping and joining them.

import type { Answer } from "./answer.ts";
import { jsonBody } from "./body.ts";
import { type CallOptions, runCall } from "./call.ts";
import { flag, group, int64, integer, type Rules, real, record, text, wireFields } from "./fields.ts";
import type { Core } from "./operation.ts";
import { type Checkpoint, checkpoint, statusError } from "./results.ts";
import { Session } from "./session.ts";
import { pathSegment, type Request } from "./transport.ts";

export interface SessionOptions {
  readonly modelResourcesId: string;
  /** At most 128 characters. */
  readonly displayName?: string | undefined;
  readonly loraConfig?:
    | {
        readonly rank?: number | undefined;
        readonly alpha?: number | undefined;
        readonly dropout?: number | undefined;
        /** 64-bit integer; not used when resuming. */
        readonly seed?: number | bigint | string | undefined;
        readonly trainUnembed?: boolean | undefined;
      }
    | undefined;
  /** Sent as it is, such as `{ wandb: { project: "…" } }`. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  readonly resumeFromCheckpointId?: string | undefined;
  /** False resumes the weights only, with a fresh optimizer at step 0. */
  readonly loadOptimizer?: boolean | undefined;
}

export interface SessionInfo {
  readonly id: string;
  readonly modelResourcesId: string;
  readonly baseModel: string;
  readonly status: "CREATING" | "RUNNING" | "STOPPED" | "STOPPING" | "ERROR" | "EXPIRED" | (string & {});
  /** Optimizer steps taken. */
  readonly step: number;
  readonly displayName: string | undefined;
  /** RFC 3339 times. */
  readonly createdAt: string | undefined;
  readonly updatedAt: string | undefined;
  readonly createdBy: string | undefined;
  readonly trainingCheckpoints: readonly Checkpoint[];
  readonly inferenceCheckpoints: readonly Checkpoint[];
  /** Versions count optimizer steps. */
  readonly policyState:
    | {
        readonly appliedWeightsVersion: number;
        readonly targetWeightsVersion: number;
        readonly trainerStep: number;
        readonly pendingPublish: boolean;
      }
    | undefined;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly resumeFromCheckpointId: string | undefined;
  readonly error: { readonly code: string | undefined; readonly message: string | undefined } | undefined;
}

const RULES: Rules = {
  modelResourcesId: text,
  displayName: text,
  loraConfig: group({
    rank: integer(1),
    alpha: real(),
    dropout: real(0, 1),
    seed: int64,
    trainUnembed: flag,
  }),
  metadata: record,
  resumeFromCheckpointId: text,
  loadOptimizer: flag,
};

const PATH = "/rl/training-sessions";

export class SessionsApi {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /** Starts a session. The answer comes at once; on the service it becomes RUNNING some time later. */
  async start(session: SessionOptions, options: CallOptions = {}): Promise<Session> {
    const body = jsonBody(wireFields("sessions.start", session, RULES, ["modelResourcesId"]));
    const { id } = await this.#send("sessions.start", { method: "POST", path: PATH, body }, options);
    return this.#session(id);
  }

  async get(id: string, options: CallOptions = {}): Promise<SessionInfo> {
    return this.#send("sessions.get", { method: "GET", path: sessionPath(id) }, options);
  }

  /** Detaches the session from its resource, which keeps running. */
  async stop(id: string, options: CallOptions = {}): Promise<SessionInfo> {
    return this.#send("sessions.stop", { method: "POST", path: `${sessionPath(id)}/stop` }, options);
  }

  /** Joins a session that exists already, after reading that it does. */
  async attach(id: string, options: CallOptions = {}): Promise<Session> {
    return this.#session((await this.get(id, options)).id);
  }

  #session(id: string): Session {
    return new Session(this.#core, this, id, sessionPath(id));
  }

  #send(name: string, request: Request, options: CallOptions): Promise<SessionInfo> {
    return runCall(name, options, this.#core.timeoutMs, async (call) =>
      sessionInfo(await this.#core.transport.send(request, call)),
    );
  }
}

function sessionPath(id: string): string {
  return `${PATH}/${pathSegment("session.id", id)}`;
}

function sessionInfo(given: Answer): SessionInfo {
  const policy = given.maybe("policy_state");
  return {
    id: given.at("id").string(),
    modelResourcesId: given.at("model_resources_id").string(),
    baseModel: given.at("base_model").string(),
    status: given.at("status").word("TRAINING_SESSION_STATUS_"),
    step: given.at("step").integer(),
    displayName: given.maybe("display_name")?.string(),
    createdAt: given.maybe("created_at")?.string(),
    updatedAt: given.maybe("updated_at")?.string(),
    createdBy: given.maybe("created_by")?.string(),
    trainingCheckpoints: (given.maybe("training_checkpoints")?.items() ?? []).map(checkpoint),
    inferenceCheckpoints: (given.maybe("inference_checkpoints")?.items() ?? []).map(checkpoint),
    policyState: policy && {
      appliedWeightsVersion: policy.at("applied_weights_version").integer(),
      targetWeightsVersion: policy.at("target_weights_version").integer(),
      trainerStep: policy.at("trainer_step").integer(),
      pendingPublish: policy.at("pending_publish").boolean(),
    },
    metadata: given.maybe("metadata")?.object() ?? {},
    resumeFromCheckpointId: given.maybe("resume_from_checkpoint_id")?.string(),
    error: statusError(given.maybe("error"), "TRAINING_SESSION_ERROR_CODE_"),
  };
}
