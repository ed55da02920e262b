// What the service tells of a training session, and the calls that ask for it.

import type { Answer } from "./answer.ts";
import { type CallOptions, runCall } from "./call.ts";
import type { Core } from "./operation.ts";
import { type Checkpoint, checkpoint, statusError } from "./results.ts";
import { pathSegment, type Request } from "./transport.ts";

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

export const SESSIONS_PATH = "/rl/training-sessions";

export function sessionPath(id: string): string {
  return `${SESSIONS_PATH}/${pathSegment("session.id", id)}`;
}

/** Sends a request that a session's description answers. */
export function askForSession(
  core: Core,
  name: string,
  request: Request,
  options: CallOptions,
): Promise<SessionInfo> {
  return runCall(name, options, core.timeoutMs, async (call) =>
    sessionInfo(await core.transport.send(request, call)),
  );
}

export const getSession = (core: Core, id: string, options: CallOptions): Promise<SessionInfo> =>
  askForSession(core, "sessions.get", { method: "GET", path: sessionPath(id) }, options);

export const stopSession = (core: Core, id: string, options: CallOptions): Promise<SessionInfo> =>
  askForSession(core, "sessions.stop", { method: "POST", path: `${sessionPath(id)}/stop` }, options);

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
