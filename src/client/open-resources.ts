// Resources that are ready, from their start to their stop.

import type { CallOptions } from "./call.ts";
import type { Core } from "./core.ts";
import type { ModelResources, ModelResourcesApi } from "./model-resources.ts";
import type { Session } from "./session.ts";
import { openSession, type SessionOptions } from "./starting.ts";
import type { StartOptions } from "./waiting.ts";

/** Model resources that this program started. `await using` stops them at the end of its scope. */
export class OpenResources implements AsyncDisposable {
  /** As they were when they became READY. */
  readonly info: ModelResources;
  readonly #core: Core;
  readonly #api: ModelResourcesApi;
  #stopped: Promise<ModelResources> | undefined;

  /** Made by `client.modelResources.open`. */
  constructor(core: Core, api: ModelResourcesApi, info: ModelResources) {
    this.#core = core;
    this.#api = api;
    this.info = info;
  }

  get id(): string {
    return this.info.id;
  }

  /** Starts a session on them and waits until it is RUNNING, by default up to an hour. */
  async openSession(
    session: Omit<SessionOptions, "modelResourcesId"> = {},
    options: StartOptions = {},
  ): Promise<Session> {
    return openSession(this.#core, { ...session, modelResourcesId: this.id }, options);
  }

  /** Keeps them for at least `seconds` from now. */
  async extendExpiry(seconds: number, options: CallOptions = {}): Promise<ModelResources> {
    return this.#api.extendExpiry(this.id, seconds, options);
  }

  /** Stops them and the sessions on them; calling it again gives the same answer, unless it failed. */
  async stop(options: CallOptions = {}): Promise<ModelResources> {
    this.#stopped ??= this.#api.stop(this.id, { ...options, force: true });
    try {
      return await this.#stopped;
    } catch (error) {
      this.#stopped = undefined;
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}
