// The client of the post-training API.

import { describe, InputError, TokengradError } from "../errors.ts";
import { checkNames } from "../names.ts";
import { checkTimeout } from "./call.ts";
import { ModelResourcesApi } from "./model-resources.ts";
import type { Core } from "./operation.ts";
import { SessionsApi } from "./sessions.ts";
import { Transport } from "./transport.ts";
import { type WireFormat, WireFormatChoice } from "./wire.ts";

export interface ClientOptions {
  /** By default the environment's `TOGETHER_API_KEY`. */
  readonly apiKey?: string | undefined;
  /** With or without `/v1`. By default the environment's `TOGETHER_BASE_URL`, else `https://api.together.ai`. */
  readonly baseURL?: string | undefined;
  /** Time limit of a call that gives none; `Infinity` for no limit. By default 300,000. @unit milliseconds */
  readonly timeoutMs?: number | undefined;
  /**
   * Format in which samples travel. `"auto"`, the default, begins with `loss_inputs`, tries the other where the
   * service refuses it, and remembers.
   */
  readonly wireFormat?: WireFormat | "auto" | undefined;
  /** The longest pause between two looks at an operation; it begins at 10 ms and grows. By default 500. @unit milliseconds */
  readonly pollIntervalMs?: number | undefined;
  /** Headers added to every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Connections open at a time, further requests wait. By default 256. */
  readonly maxConnections?: number | undefined;
}

const OPTIONS = [
  "apiKey",
  "baseURL",
  "timeoutMs",
  "wireFormat",
  "pollIntervalMs",
  "headers",
  "maxConnections",
] as const satisfies readonly (keyof ClientOptions)[];

/** Every call of a client may reject with a `TokengradError`; match on its `code`. */
export class Client {
  readonly modelResources: ModelResourcesApi;
  readonly sessions: SessionsApi;
  /** Where requests go, up to and with `/v1`. */
  readonly baseURL: string;
  readonly #core: Core;

  constructor(options: ClientOptions = {}) {
    checkNames("client", options, OPTIONS);
    const apiKey = (options.apiKey ?? process.env.TOGETHER_API_KEY ?? "").trim();
    if (apiKey === "") {
      throw new TokengradError(
        "ERR_API_KEY",
        "apiKey: missing; set the environment variable TOGETHER_API_KEY or pass new Client({ apiKey })",
      );
    }
    this.#core = {
      transport: new Transport({
        apiKey,
        baseURL: options.baseURL ?? (process.env.TOGETHER_BASE_URL?.trim() || "https://api.together.ai"),
        headers: options.headers ?? {},
        maxConnections: positive("maxConnections", options.maxConnections ?? 256),
      }),
      wireFormat: new WireFormatChoice(options.wireFormat ?? "auto"),
      timeoutMs: checkTimeout("timeoutMs", options.timeoutMs ?? 300_000),
      pollIntervalMs: positive("pollIntervalMs", options.pollIntervalMs ?? 500),
    };
    this.baseURL = this.#core.transport.baseURL;
    this.modelResources = new ModelResourcesApi(this.#core);
    this.sessions = new SessionsApi(this.#core);
  }

  /** Closes the connections. Calls under way reject with `ERR_CLIENT_CLOSED`; closing twice is fine. */
  async close(): Promise<void> {
    await this.#core.transport.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

function positive(path: string, value: number): number {
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new InputError(path, `expected an integer above 0, got ${describe(value)}`);
}
