// The client of the post-training API.

import { describe, InputError, TokengradError } from "../errors.ts";
import { checkNames } from "../names.ts";
import { ByteBudget } from "./budget.ts";
import { type CallOptions, checkTimeout } from "./call.ts";
import { CheckpointsApi } from "./checkpoints.ts";
import { checkLimits } from "./chunks.ts";
import type { Core } from "./core.ts";
import { environmentHeaders, environmentLogger } from "./environment.ts";
import { type Logger, Observer, type Tracer } from "./events.ts";
import { WireFormatChoice } from "./format-choice.ts";
import type { WireFormat } from "./formats.ts";
import { ModelResourcesApi } from "./model-resources.ts";
import { INLINE_BYTES, PAYLOAD_MODES, type PayloadMode } from "./payloads.ts";
import { checkRetries } from "./retry.ts";
import { Sender } from "./sender.ts";
import { SessionsApi } from "./sessions.ts";
import { type SupportedModel, supportedModels } from "./supported-models.ts";
import { Transport } from "./transport.ts";

export interface ClientOptions {
  /** By default the environment's `TOGETHER_API_KEY`. */
  readonly apiKey?: string | undefined;
  /** With or without `/v1`. By default the environment's `TOGETHER_BASE_URL`, else `https://api.together.ai`. */
  readonly baseURL?: string | undefined;
  /** Time limit of a call that gives none; `Infinity` for no limit. By default 300,000. @unit milliseconds */
  readonly timeoutMs?: number | undefined;
  /**
   * Time of one attempt of a request, which is then sent again; each that runs out doubles it for the next, so that a slow
   * answer is reached at last. Uploads get 4 s more for each MB. By default 60,000. @unit milliseconds
   */
  readonly requestTimeoutMs?: number | undefined;
  /** Repeats of a failed request where that is safe and may help. By default 7. */
  readonly maxRetries?: number | undefined;
  /**
   * Upper end of the first pause before a repeat; it doubles up to 10 s, and the pause is a random part of it. By default
   * 500. @unit milliseconds
   */
  readonly retryDelayMs?: number | undefined;
  /**
   * Format in which samples travel. `"auto"`, the default, begins with `loss_inputs`, tries the other where the
   * service refuses it, and remembers.
   */
  readonly wireFormat?: WireFormat | "auto" | undefined;
  /** The longest pause between two looks at an operation; it begins at 10 ms and grows. By default 500. @unit milliseconds */
  readonly pollIntervalMs?: number | undefined;
  /**
   * Large bodies: `"auto"` (default) uploads those over 512 KiB and splits batches where the service has no uploads,
   * `"upload"` never splits for size, `"inline"` never uploads.
   */
  readonly payloads?: PayloadMode | undefined;
  /** Samples of one request of a scoring or custom pass; larger batches go out in parts. By default no limit. */
  readonly maxChunkSamples?: number | undefined;
  /** Size of one request's samples where it is not uploaded; larger batches go out in parts. By default 524,288. @unit bytes */
  readonly maxChunkBytes?: number | undefined;
  /**
   * Bodies made or sent at one time, over all calls; further calls wait. As much again may be kept of the samples of custom
   * steps between their two passes. By default 268,435,456. @unit bytes
   */
  readonly maxBytesInFlight?: number | undefined;
  /**
   * Size of an answer or of a result's download; one that is larger is not read to its end. `Infinity` for no limit. By
   * default 4,294,967,296.
   * @unit bytes
   */
  readonly maxResponseBytes?: number | undefined;
  /**
   * Takes the client's lines, such as `console`: requests (debug), progress of starts (info), failures that are waited
   * out (warn). Never keys or bodies. By default as the environment's `TOGETHER_LOG` (`info`, `debug`) says, to stderr.
   */
  readonly logger?: Logger | undefined;
  /** Makes spans of operations and requests: a tracer of `@opentelemetry/api`, as `trace.getTracer("…")` gives it. */
  readonly tracer?: Tracer | undefined;
  /** Headers added to every request to the API, besides those of the environment's `TOGETHER_CUSTOM_HEADERS`. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /**
   * Connections open to a host at a time, further requests wait. By default the environment's
   * `TOGETHER_RL_MAX_CONNECTIONS`, else 256.
   */
  readonly maxConnections?: number | undefined;
}

const OPTIONS = [
  "apiKey",
  "baseURL",
  "timeoutMs",
  "requestTimeoutMs",
  "maxRetries",
  "retryDelayMs",
  "payloads",
  "maxChunkSamples",
  "maxChunkBytes",
  "maxBytesInFlight",
  "maxResponseBytes",
  "logger",
  "tracer",
  "wireFormat",
  "pollIntervalMs",
  "headers",
  "maxConnections",
] as const satisfies readonly (keyof ClientOptions)[];

/** Every call of a client may reject with a `TokengradError`; match on its `code`. */
export class Client implements AsyncDisposable {
  readonly modelResources: ModelResourcesApi;
  readonly sessions: SessionsApi;
  readonly checkpoints: CheckpointsApi;
  /** Where requests go, up to and with `/v1`. */
  readonly baseURL: string;
  readonly #core: Core;
  readonly #transport: Transport;

  constructor(options: ClientOptions = {}) {
    checkNames("client", options, OPTIONS);
    const apiKey = (options.apiKey ?? process.env.TOGETHER_API_KEY ?? "").trim();
    if (apiKey === "") {
      throw new TokengradError(
        "ERR_API_KEY",
        "apiKey: missing; set the environment variable TOGETHER_API_KEY or pass new Client({ apiKey })",
      );
    }
    const environment = process.env;
    this.#transport = new Transport({
      apiKey,
      baseURL: options.baseURL ?? (environment.TOGETHER_BASE_URL?.trim() || "https://api.together.ai"),
      headers: { ...environmentHeaders(environment), ...options.headers },
      maxConnections: positive(
        "maxConnections",
        options.maxConnections ?? Number(environment.TOGETHER_RL_MAX_CONNECTIONS || 256),
      ),
    });
    const observer = new Observer(options.logger ?? environmentLogger(environment), options.tracer);
    this.#core = {
      sender: new Sender(this.#transport, observer, {
        ...checkRetries({
          maxRetries: options.maxRetries ?? 7,
          retryDelayMs: options.retryDelayMs ?? 500,
        }),
        requestTimeoutMs: checkTimeout("requestTimeoutMs", options.requestTimeoutMs ?? 60_000),
        maxResponseBytes:
          options.maxResponseBytes === Infinity
            ? Infinity
            : positive("maxResponseBytes", options.maxResponseBytes ?? 2 ** 32),
      }),
      observer,
      wireFormat: new WireFormatChoice(options.wireFormat ?? "auto"),
      timeoutMs: checkTimeout("timeoutMs", options.timeoutMs ?? 300_000),
      pollIntervalMs: positive("pollIntervalMs", options.pollIntervalMs ?? 500),
      payloads: payloadMode(options.payloads ?? "auto"),
      chunks: checkLimits({
        maxSamples: options.maxChunkSamples ?? Infinity,
        maxBytes: options.maxChunkBytes ?? INLINE_BYTES,
      }),
      sessions: new Map(),
      budget: new ByteBudget(positive("maxBytesInFlight", options.maxBytesInFlight ?? 2 ** 28)),
    };
    this.baseURL = this.#transport.baseURL;
    this.modelResources = new ModelResourcesApi(this.#core);
    this.sessions = new SessionsApi(this.#core);
    this.checkpoints = new CheckpointsApi(this.#core);
  }

  /** The models that resources can be asked for, and their limits. */
  async supportedModels(options: CallOptions = {}): Promise<SupportedModel[]> {
    return supportedModels(this.#core, options);
  }

  /** Closes the connections. Calls under way reject with `ERR_CLIENT_CLOSED`; closing twice is fine. */
  async close(): Promise<void> {
    await this.#transport.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

function positive(path: string, value: number): number {
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new InputError(path, `expected an integer above 0, got ${describe(value)}`);
}

function payloadMode(mode: PayloadMode): PayloadMode {
  if (PAYLOAD_MODES.includes(mode)) return mode;
  throw new InputError("payloads", `expected "auto", "inline" or "upload", got ${describe(mode)}`);
}
