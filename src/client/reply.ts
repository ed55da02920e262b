// Reads the answer of one request: JSON of a success, or the error that an unsuccessful status stands for.

import { LOGPROBS_IN_OPERATION, LOGPROBS_IN_OUTPUT } from "../wire/result.ts";
import { Answer } from "./answer.ts";
import { type ApiError, apiError } from "./api-errors.ts";
import { Arriving, looksLikeHtml } from "./arriving.ts";
import type { LogprobsPart } from "./logprobs.ts";
import { retryAfter } from "./retry.ts";
import { type Outgoing, type Reply, shown, shownURL, type Transport } from "./transport.ts";

/** How much is read of an answer that is no result, such as an error's message; the rest is cut off. @unit bytes */
const START_BYTES = 1024 * 1024;

/** How the JSON of an answer is read. */
export interface Reading {
  /** What it may have at most. @unit bytes */
  readonly maxBytes: number;
  /** Where the log-probabilities go that it may bring. */
  readonly logprobs: LogprobsPart | undefined;
  /** What messages call the request. By default `METHOD url`. */
  readonly where?: string | undefined;
}

export const isSuccess = ({ statusCode }: Reply): boolean => statusCode >= 200 && statusCode < 300;

/** The body of an answer of which little is expected. */
export async function readStart(reply: Reply): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of reply.body as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= START_BYTES) break;
  }
  return Buffer.concat(chunks);
}

/** Reads the body of an unsuccessful answer and gives its error. */
export async function readError(reply: Reply, request: Outgoing, transport: Transport): Promise<ApiError> {
  const header = (name: string) => {
    const value = reply.headers[name];
    return Array.isArray(value) ? value[0] : value;
  };
  const { message, ...fields } = errorFields(await readStart(reply));
  const shouldRetry = header("x-should-retry");
  return apiError({
    ...fields,
    status: reply.statusCode,
    method: request.method,
    url: shownURL(request.url, request.toApi),
    message: transport.withoutKey(message),
    requestId: header("x-request-id"),
    shouldRetry: shouldRetry === "true" ? true : shouldRetry === "false" ? false : undefined,
    retryAfterMs: retryAfter(header("retry-after-ms"), header("retry-after")),
    bytes: request.body?.bytes ?? 0,
  });
}

/** The JSON of a successful answer; throws the error of an unsuccessful one. */
export async function readAnswer(
  reply: Reply,
  request: Outgoing,
  transport: Transport,
  { maxBytes, logprobs, where = shown(request) }: Reading,
): Promise<Answer> {
  if (!isSuccess(reply)) throw await readError(reply, request, transport);
  const arriving = new Arriving(reply, maxBytes, where);
  const path = request.toApi ? LOGPROBS_IN_OPERATION : LOGPROBS_IN_OUTPUT;
  const value = await (logprobs === undefined ? arriving.parsed() : arriving.readInto(logprobs, path));
  return new Answer(value, "", where);
}

/** What the body of a failed answer says: `{ error: { message, … } }`, a bare `{ message }`, or plain text. */
function errorFields(body: Buffer) {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body.toString());
  } catch {
    const plain = looksLikeHtml(body) ? "an HTML page" : body.toString().trim().slice(0, 500);
    const nothing = { serverCode: undefined, type: undefined, param: undefined, explained: false };
    return { message: plain || "no message", ...nothing };
  }
  const outer = (parsed ?? {}) as Record<string, unknown>;
  const fields = typeof outer.error === "object" && outer.error !== null ? outer.error : outer;
  const text = (name: string) => {
    const value = (fields as Record<string, unknown>)[name];
    return typeof value === "string" ? value : undefined;
  };
  const message = text("message") ?? (typeof outer.error === "string" ? outer.error : undefined);
  return {
    message: message ?? "no message",
    serverCode: text("code"),
    type: text("type"),
    param: text("param"),
    explained: message !== undefined,
  };
}
