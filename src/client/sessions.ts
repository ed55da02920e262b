// Training sessions: starting, looking at, stopping and joining them.

import { jsonBody } from "./body.ts";
import type { CallOptions } from "./call.ts";
import { flag, group, int64, integer, type Rules, real, record, text, wireFields } from "./fields.ts";
import type { Core } from "./operation.ts";
import { Session } from "./session.ts";
import { askForSession, getSession, SESSIONS_PATH, type SessionInfo, stopSession } from "./session-info.ts";

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

export class SessionsApi {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /** Starts a session. The answer comes at once; on the service it becomes RUNNING some time later. */
  async start(session: SessionOptions, options: CallOptions = {}): Promise<Session> {
    const body = jsonBody(wireFields("sessions.start", session, RULES, ["modelResourcesId"]));
    const request = { method: "POST", path: SESSIONS_PATH, body } as const;
    return this.#session(await askForSession(this.#core, "sessions.start", request, options));
  }

  async get(id: string, options: CallOptions = {}): Promise<SessionInfo> {
    return getSession(this.#core, id, options);
  }

  /** Detaches the session from its resource, which keeps running. */
  async stop(id: string, options: CallOptions = {}): Promise<SessionInfo> {
    return stopSession(this.#core, id, options);
  }

  /** Joins a session that exists already, after reading that it does. */
  async attach(id: string, options: CallOptions = {}): Promise<Session> {
    return this.#session(await this.get(id, options));
  }

  #session({ id }: SessionInfo): Session {
    return new Session(this.#core, id);
  }
}
