// Reads the answer of one request: JSON of a success, or the error that an unsuccessful status stands for.

import { Answer } from "./answer.ts";
import { type ApiError, apiError } from "./api-errors.ts";
import { ResponseError } from "./errors.ts";
import { retryAfter } from "./retry.ts";
import { type Outgoing, type Reply, shown, shownURL, type Transport } from "./transport.ts";

/** How much of a failed answer is read for its message; the rest is cut off. @unit bytes */
const ERROR_BODY_BYTES = 1024 * 1024;

export const isSuccess = ({ statusCode }: Reply): boolean => statusCode >= 200 && statusCode < 300;

export async function readBody(reply: Reply, limit = Infinity): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of reply.body as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= limit) break;
  }
  return Buffer.concat(chunks);
}

/** The JSON of an answer. */
export function parseAnswer(body: Buffer, where: string): Answer {
  try {
    return new Answer(JSON.parse(body.toString()), "", where);
  } catch (cause) {
    const got =
      body.length === 0 ? "nothing" : looksLikeHtml(body) ? "HTML" : `${body.length} bytes that do not parse`;
    throw new ResponseError(`answer: expected JSON, got ${got} (${where})`, { cause, garbled: true });
  }
}

/** Reads the body of an unsuccessful answer and gives its error. */
export async function readError(reply: Reply, request: Outgoing, transport: Transport): Promise<ApiError> {
  const header = (name: string) => {
    const value = reply.headers[name];
    return Array.isArray(value) ? value[0] : value;
  };
  const { message, ...fields } = errorFields(await readBody(reply, ERROR_BODY_BYTES));
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
export async function readAnswer(reply: Reply, request: Outgoing, transport: Transport): Promise<Answer> {
  if (!isSuccess(reply)) throw await readError(reply, request, transport);
  return parseAnswer(await readBody(reply), shown(request));
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
