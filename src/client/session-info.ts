// What the service tells of a training session, and the calls that ask for it.

import type { Answer } from "./answer.ts";
import { jsonBody } from "./body.ts";
import { type Call, type CallOptions, runCall } from "./call.ts";
import type { Core } from "./core.ts";
import { type Rules, record, text, wireFields } from "./fields.ts";
import { type Checkpoint, checkpoint, type StatusError, statusError } from "./results.ts";
import type { Request } from "./sender.ts";
import { pathSegment } from "./transport.ts";

export const SESSION_STATUSES = ["CREATING", "RUNNING", "STOPPED", "STOPPING", "ERROR", "EXPIRED"] as const;

export type SessionStatus = (typeof SESSION_STATUSES)[number];

export interface SessionInfo {
  readonly id: string;
  readonly modelResourcesId: string;
  readonly baseModel: string;
  readonly status: SessionStatus | (string & {});
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
  /** As the service words it: `rank`, `alpha`, `dropout`, `seed`, `train_unembed`; undefined for a session over all weights. */
  readonly loraConfig: Readonly<Record<string, unknown>> | undefined;
  readonly error: StatusError | undefined;
}

/** What may be changed of a session. What is left out stays, an empty string clears. */
export interface SessionUpdate {
  /** At most 128 characters. */
  readonly displayName?: string | undefined;
  /** Such as `{ wandb: { run_name: "…" } }`. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
}

const UPDATE: Rules = { displayName: text, metadata: record };

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
    sessionInfo(await core.sender.send(request, call)),
  );
}

export const getSession = (core: Core, id: string, options: CallOptions): Promise<SessionInfo> =>
  askForSession(core, "sessions.get", { method: "GET", path: sessionPath(id) }, options);

export interface StopOptions extends CallOptions {
  /** Resolves when the session is over, which frees its place on the resource, and not when it begins to stop. */
  readonly wait?: boolean | undefined;
}

/** States in which a session still holds its place. */
const HOLDING: readonly string[] = ["CREATING", "RUNNING", "STOPPING"];
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2000;

export function stopSession(core: Core, id: string, options: StopOptions): Promise<SessionInfo> {
  const path = sessionPath(id);
  const run = async (call: Call) => {
    let found = sessionInfo(await core.sender.send({ method: "POST", path: `${path}/stop` }, call));
    for (let pauseMs = FIRST_PAUSE_MS; options.wait && HOLDING.includes(found.status); pauseMs *= 2) {
      await call.pause(Math.min(pauseMs, LONGEST_PAUSE_MS));
      found = sessionInfo(await core.sender.send({ method: "GET", path }, call));
    }
    return found;
  };
  return runCall("sessions.stop", options, core.timeoutMs, run, ["wait"]);
}

export function updateSession(
  core: Core,
  id: string,
  changes: SessionUpdate,
  options: CallOptions,
): Promise<SessionInfo> {
  const body = jsonBody(wireFields("sessions.update", changes, UPDATE));
  return askForSession(core, "sessions.update", { method: "PATCH", path: sessionPath(id), body }, options);
}

export function sessionInfo(given: Answer): SessionInfo {
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
    loraConfig: given.maybe("lora_config")?.object(),
    error: statusError(given.maybe("error"), "TRAINING_SESSION_ERROR_CODE_"),
  };
}
