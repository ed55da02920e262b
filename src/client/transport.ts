// Sends one request over the client's own connections and reads its answer.

import { validateHeaderName, validateHeaderValue } from "node:http";
import type { Readable } from "node:stream";
import { Agent, type Dispatcher } from "undici";
import { describe, InputError } from "../errors.ts";
import { Pace, PIECE } from "../pace.ts";
import type { Body } from "./body.ts";
import { ClientClosedError, ConnectionError } from "./errors.ts";

interface TransportOptions {
  readonly apiKey: string;
  readonly baseURL: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly maxConnections: number;
}

/** One HTTP request, to the API or to a storage address. */
export interface Outgoing {
  readonly method: "GET" | "POST" | "PATCH" | "PUT";
  readonly url: string;
  /** The key and the caller's headers go to the API alone: a storage address carries its own permission. */
  readonly toApi: boolean;
  readonly body?: Body | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** The longest time without a byte of the answer; none by default. @unit milliseconds */
  readonly idleMs?: number | undefined;
}

export type Reply = Dispatcher.ResponseData;

const CONNECT_TIMEOUT_MS = 30_000;

export class Transport {
  /** Origin and path up to `/v1`. */
  readonly baseURL: string;
  readonly #agent: Agent;
  readonly #key: string;
  readonly #headers: Record<string, string>;
  #closed = false;

  constructor(options: TransportOptions) {
    this.baseURL = normalizeBaseURL(options.baseURL);
    this.#key = options.apiKey;
    this.#headers = {};
    for (const [name, value] of Object.entries(options.headers)) {
      checkHeader(`headers.${name}`, name, value);
      this.#headers[name.toLowerCase()] = value;
    }
    checkHeader("apiKey", "authorization", options.apiKey);
    this.#headers.authorization = `Bearer ${options.apiKey}`;
    // The time limits of calls and requests are the client's own; undici's of 300 s would silently cut a longer one.
    this.#agent = new Agent({
      connections: options.maxConnections,
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: { timeout: CONNECT_TIMEOUT_MS },
    });
  }

  /** Sends the request once and lets `read` take its answer, within `signal`. */
  async exchange<T>(request: Outgoing, signal: AbortSignal, read: (reply: Reply) => Promise<T>): Promise<T> {
    if (this.#closed) throw new ClientClosedError();
    const { origin, pathname, search } = new URL(request.url);
    const headers: Record<string, string> = {
      accept: "application/json",
      "user-agent": "tokengrad",
      ...(request.toApi ? this.#headers : {}),
      ...request.headers,
    };
    if (request.body !== undefined) {
      headers["content-type"] = "application/json";
      headers["content-length"] = String(request.body.bytes);
    }
    let reading = false;
    try {
      const reply = await this.#agent.request({
        origin,
        path: pathname + search,
        method: request.method,
        headers,
        // undici sends any iterable of buffers, which its types do not say.
        body: (request.body === undefined ? null : paced(request.body)) as unknown as Readable | null,
        signal,
        headersTimeout: request.idleMs ?? 0,
        bodyTimeout: request.idleMs ?? 0,
      });
      reading = true;
      return await read(reply);
    } catch (error) {
      if (this.#closed) throw new ClientClosedError();
      const { message, code } = error as Error & { code?: string };
      if (reading && !isNetworkError(error)) throw error;
      const what = message || code || "connection failed";
      throw new ConnectionError(`${what} (${shown(request)})`, error);
    }
  }

  /** Text without the key, which a server may repeat; errors end up in logs. */
  withoutKey(text: string): string {
    return text.replaceAll(this.#key, "[key]");
  }

  /** Closes all connections at once; requests under way fail with `ClientClosedError`. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#agent.destroy();
  }
}

/** The chunks, one turn of the event loop after the other: a socket may take many of them at once. */
async function* paced({ chunks }: Body): AsyncGenerator<Buffer> {
  const pace = new Pace();
  for (const chunk of chunks) {
    yield chunk;
    if (pace.due(PIECE)) await pace.rest();
  }
}

/** The request for messages. The query of a storage address is a permission and is left out. */
export function shown({ method, url, toApi }: Outgoing): string {
  return `${method} ${shownURL(url, toApi)}`;
}

export function shownURL(url: string, toApi: boolean): string {
  return toApi ? url : url.replace(/[?#].*$/s, "");
}

/** Whether reading failed for the connection, and not for what stands in the answer or on the disk. */
function isNetworkError(error: unknown): boolean {
  const { name, code = "" } = error as { name?: string; code?: string };
  return (
    name === "AbortError" || /^(UND_ERR|ECONN|EPIPE|ETIMEDOUT|EHOST|ENET|ERR_SSL|ERR_STREAM_PRE)/.test(code)
  );
}

export function checkHeader(path: string, name: string, value: string): void {
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value);
  } catch {
    throw new InputError(path, "expected a name and a value that an HTTP header can carry");
  }
}

/** An id as one segment of a path. */
export function pathSegment(path: string, id: string): string {
  if (typeof id === "string" && id !== "" && !/^\.{1,2}$/.test(id)) return encodeURIComponent(id);
  throw new InputError(path, `expected an id, got ${describe(id)}`);
}

/** The base URL ends in exactly one `/v1`, whichever way it was written. */
function normalizeBaseURL(given: string): string {
  const url = URL.canParse(given) ? new URL(given) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username || url.password) {
    throw new InputError("baseURL", "expected an http or https URL without user and password");
  }
  const path = url.pathname.replace(/\/+$/, "").replace(/\/v1$/, "").replace(/\/+$/, "");
  return `${url.origin}${path}/v1`;
}
