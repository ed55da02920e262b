// Training sessions: starting, joining, looking at, listing, changing and stopping them.

import type { CallOptions } from "./call.ts";
import { type Core, contextOf } from "./core.ts";
import { choices, integer, type Rules, text } from "./fields.ts";
import { List, type ListOptions } from "./pages.ts";
import { Session } from "./session.ts";
import {
  askForSession,
  getSession,
  SESSION_STATUSES,
  SESSIONS_PATH,
  type SessionInfo,
  type SessionStatus,
  type SessionUpdate,
  type StopOptions,
  sessionInfo,
  stopSession,
  updateSession,
} from "./session-info.ts";
import { openSession, type SessionOptions, sessionStart } from "./starting.ts";
import type { StartOptions } from "./waiting.ts";

export interface SessionListOptions extends ListOptions {
  readonly status?: readonly SessionStatus[] | undefined;
  readonly modelResourcesId?: string | undefined;
  /** Id of a user, or `me`. */
  readonly createdBy?: string | undefined;
}

const LIST: Rules = {
  after: text,
  createdBy: text,
  limit: integer(1, 100),
  modelResourcesId: text,
  status: choices("TRAINING_SESSION_STATUS_", SESSION_STATUSES),
};

export class SessionsApi {
  readonly #core: Core;

  constructor(core: Core) {
    this.#core = core;
  }

  /** Starts a session. The answer comes at once; on the service it becomes RUNNING some time later. */
  async start(session: SessionOptions, options: CallOptions = {}): Promise<Session> {
    const request = sessionStart("sessions.start", session);
    return this.#session(await askForSession(this.#core, "sessions.start", request, options));
  }

  /**
   * Starts a session and waits until it is RUNNING, by default up to an hour. If anything fails after its creation, it
   * is stopped.
   *
   * @throws {StartError} if it ends in another state.
   */
  async open(session: SessionOptions, options: StartOptions = {}): Promise<Session> {
    return openSession(this.#core, session, options);
  }

  async get(id: string, options: CallOptions = {}): Promise<SessionInfo> {
    return getSession(this.#core, id, options);
  }

  /** All sessions of the project, newest first. */
  list(options: SessionListOptions = {}): List<SessionInfo> {
    return new List(this.#core, "sessions.list", SESSIONS_PATH, options, LIST, sessionInfo);
  }

  /** Changes name or metadata. What is left out stays, an empty string clears. */
  async update(id: string, changes: SessionUpdate, options: CallOptions = {}): Promise<SessionInfo> {
    return updateSession(this.#core, id, changes, options);
  }

  /** Detaches the session from its resource, which keeps running. */
  async stop(id: string, options: StopOptions = {}): Promise<SessionInfo> {
    return stopSession(this.#core, id, options);
  }

  /** Joins a session that exists already, after reading that it does. */
  async attach(id: string, options: CallOptions = {}): Promise<Session> {
    return this.#session(await this.get(id, options));
  }

  #session({ id }: SessionInfo): Session {
    return new Session(contextOf(this.#core, id));
  }
}
