// Sends one request over the client's own connections and reads its answer.

import { validateHeaderName, validateHeaderValue } from "node:http";
import type { Readable } from "node:stream";
import { Agent, type Dispatcher } from "undici";
import { describe, InputError } from "../errors.ts";
import { Answer } from "./answer.ts";
import type { Body } from "./body.ts";
import type { Call } from "./call.ts";
import { type ApiError, apiError, ClientClosedError, ConnectionError, ResponseError } from "./errors.ts";

interface TransportOptions {
  readonly apiKey: string;
  readonly baseURL: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly maxConnections: number;
}

export interface Request {
  readonly method: "GET" | "POST";
  /** Path below `/v1`, with its query. */
  readonly path: string;
  readonly body?: Body | undefined;
  readonly idempotencyKey?: string | undefined;
}

interface Exchange {
  readonly response: Dispatcher.ResponseData;
  readonly body: Buffer;
}

const CONNECT_TIMEOUT_MS = 30_000;
/** How much of a failed answer is read for its message. @unit bytes */
const ERROR_BODY_BYTES = 1024 * 1024;

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
    this.#headers = { accept: "application/json", "user-agent": "tokengrad" };
    for (const [name, value] of Object.entries(options.headers)) {
      checkHeader(`headers.${name}`, name, value);
      this.#headers[name.toLowerCase()] = value;
    }
    checkHeader("apiKey", "authorization", options.apiKey);
    this.#headers.authorization = `Bearer ${options.apiKey}`;
    // The time limit of a call is its own; undici's limits of 300 s would silently cut a longer one.
    this.#agent = new Agent({
      connections: options.maxConnections,
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: { timeout: CONNECT_TIMEOUT_MS },
    });
  }

  /** Sends the request once and gives the JSON of its answer; an unsuccessful status is an `ApiError`. */
  async send(request: Request, call: Call): Promise<Answer> {
    const url = `${this.baseURL}${request.path}`;
    const { response, body } = await this.#exchange(request, url, call);
    if (isSuccess(response.statusCode)) return parseAnswer(body, `${request.method} ${url}`);
    throw this.#apiError(request.method, url, response, body);
  }

  /** Closes all connections at once; requests under way fail with `ClientClosedError`. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#agent.destroy();
  }

  async #exchange(request: Request, url: string, call: Call): Promise<Exchange> {
    if (this.#closed) throw new ClientClosedError();
    const { origin, pathname, search } = new URL(url);
    const headers: Record<string, string> = { ...this.#headers };
    if (request.idempotencyKey !== undefined) headers["idempotency-key"] = request.idempotencyKey;
    if (request.body !== undefined) {
      headers["content-type"] = "application/json";
      headers["content-length"] = String(request.body.bytes);
    }
    try {
      const response = await this.#agent.request({
        origin,
        path: pathname + search,
        method: request.method,
        headers,
        // undici sends any iterable of buffers, which its types do not say.
        body: (request.body?.chunks ?? null) as unknown as Readable | null,
        signal: call.signal,
      });
      const limit = isSuccess(response.statusCode) ? Infinity : ERROR_BODY_BYTES;
      return { response, body: await readBody(response.body, limit) };
    } catch (error) {
      if (this.#closed) throw new ClientClosedError();
      const { message, code } = error as Error & { code?: string };
      throw new ConnectionError(
        `${message || code || "connection failed"} (${request.method} ${url})`,
        error,
      );
    }
  }

  #apiError(method: string, url: string, response: Dispatcher.ResponseData, body: Buffer): ApiError {
    const requestId = response.headers["x-request-id"];
    const { message, code, type, param } = errorFields(body);
    return apiError({
      status: response.statusCode,
      method,
      url,
      // A server may repeat the key it refuses; errors end up in logs.
      message: message.replaceAll(this.#key, "[key]"),
      serverCode: code,
      type,
      param,
      requestId: Array.isArray(requestId) ? requestId[0] : requestId,
    });
  }
}

const isSuccess = (status: number) => status >= 200 && status < 300;

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

async function readBody(body: AsyncIterable<Buffer>, limit = Infinity): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= limit) break;
  }
  return Buffer.concat(chunks);
}

function parseAnswer(body: Buffer, where: string): Answer {
  try {
    return new Answer(JSON.parse(body.toString()), "", where);
  } catch (cause) {
    const got =
      body.length === 0 ? "nothing" : looksLikeHtml(body) ? "HTML" : `${body.length} bytes that do not parse`;
    throw new ResponseError(`answer: expected JSON, got ${got} (${where})`, { cause });
  }
}

function looksLikeHtml(body: Buffer): boolean {
  return body.subarray(0, 64).toString().trimStart().startsWith("<");
}

/** What the body of a failed answer says: `{ error: { message, … } }`, a bare `{ message }`, or plain text. */
function errorFields(body: Buffer) {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body.toString());
  } catch {
    const plain = looksLikeHtml(body) ? "an HTML page" : body.toString().trim().slice(0, 500);
    return { message: plain || "no message", code: undefined, type: undefined, param: undefined };
  }
  const outer = (parsed ?? {}) as Record<string, unknown>;
  const fields = typeof outer.error === "object" && outer.error !== null ? outer.error : outer;
  const text = (name: string) => {
    const value = (fields as Record<string, unknown>)[name];
    return typeof value === "string" ? value : undefined;
  };
  const message = text("message") ?? (typeof outer.error === "string" ? outer.error : "no message");
  return { message, code: text("code"), type: text("type"), param: text("param") };
}
