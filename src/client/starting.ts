// Starts training sessions: the request, and the wait until one runs.

import { jsonBody } from "./body.ts";
import type { Call } from "./call.ts";
import { type Core, contextOf } from "./core.ts";
import { flag, group, int64, integer, type Rules, real, record, text, wireFields } from "./fields.ts";
import type { Request } from "./sender.ts";
import { Session } from "./session.ts";
import { SESSIONS_PATH, sessionInfo, sessionPath, stopSession } from "./session-info.ts";
import { type StartOptions, startAndWait } from "./waiting.ts";

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

/** The service starts a session within minutes. @unit milliseconds */
const START_TIMEOUT_MS = 3_600_000;

/** The request that starts a session; it has no key, so that a repeat might start a second one. */
export function sessionStart(name: string, session: SessionOptions): Request {
  const body = jsonBody(wireFields(name, session, RULES, ["modelResourcesId"]));
  return { method: "POST", path: SESSIONS_PATH, body, once: true };
}

/** Starts a session and waits until it is RUNNING; stops it where anything goes wrong after its creation. */
export async function openSession(
  core: Core,
  session: SessionOptions,
  options: StartOptions,
): Promise<Session> {
  const request = sessionStart("sessions.open", session);
  const send = async (call: Call, asked: Request) => sessionInfo(await core.sender.send(asked, call));
  const { id } = await startAndWait(core, "sessions.open", options, START_TIMEOUT_MS, {
    what: "session",
    ready: "RUNNING",
    onTheWay: ["UNSPECIFIED", "CREATING"],
    create: (call) => send(call, request),
    look: (id, call) => send(call, { method: "GET", path: sessionPath(id) }),
    stop: (id) => stopSession(core, id, {}),
  });
  return new Session(contextOf(core, id));
}
