// A scripted HTTP server on loopback, and the client and session that the tests drive against it.

import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { Client, type ClientOptions } from "../../src/client/client.ts";
import type { Sample } from "../../src/client/sample.ts";
import type { Session } from "../../src/client/session.ts";

export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

type Answerer = (response: ServerResponse) => void;
/** JSON with status 200, or a function that answers by itself. */
export type Reply = object | Answerer;

/** Answers a request as the reply says. */
export function answerWith(reply: Reply, response: ServerResponse): void {
  const answer = typeof reply === "function" ? (reply as Answerer) : status(200, reply);
  answer(response);
}

export interface Scripted {
  readonly url: string;
  readonly requests: Received[];
  /** Sockets opened so far. */
  sockets(): number;
  /** Stops listening and cuts all connections. */
  close(): void;
}

export const KEY = "sk-secret-0123456789";

/** Answers with a status and a body, JSON unless it is a string. */
export const status =
  (
    code: number,
    body: object | string = { error: { message: `status ${code}`, type: "test" } },
    headers = {},
  ): Answerer =>
  (response) => {
    response.writeHead(code, {
      "content-type": typeof body === "string" ? "text/html" : "application/json",
      ...headers,
    });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  };

/** Cuts the connection without an answer. */
export const reset: Answerer = (response) => response.socket?.destroy();
/** Writes the head and part of a body, then cuts the connection. */
export const cutOff: Reply = (response) => {
  response.writeHead(200, { "content-length": "1000" });
  response.write('{"id":"op-1",');
  setTimeout(() => response.socket?.destroy(), 5);
};
/** Never answers. */
export const hang: Answerer = () => {};

export const PENDING = { id: "op-1", status: "TRAINING_OPERATION_STATUS_PENDING" };
export const completed = (output: object) => ({
  id: "op-1",
  status: "TRAINING_OPERATION_STATUS_COMPLETED",
  output,
});
export const failed = (error: object) => ({ id: "op-1", status: "TRAINING_OPERATION_STATUS_FAILED", error });

/** A finished optimizer step. */
export const DONE = completed({ step: 1 });

export const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

export const SESSION = {
  id: "s-1",
  base_model: "tiny",
  created_at: "2026-01-01T00:00:00Z",
  updated_at: "2026-01-01T00:00:00Z",
  created_by: "me",
  inference_checkpoints: [],
  training_checkpoints: [],
  metadata: {},
  model_resources_id: "r-1",
  policy_state: {
    applied_weights_version: "3",
    target_weights_version: 4,
    trainer_step: "5",
    pending_publish: false,
  },
  status: "TRAINING_SESSION_STATUS_RUNNING",
  step: "5",
};

export async function serve(
  answer: (request: Received, nth: number) => Reply | Promise<Reply>,
): Promise<Scripted> {
  const requests: Received[] = [];
  let sockets = 0;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("error", () => {});
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", async () => {
      const { method = "", url: path = "", headers } = request;
      const received = { method, path, headers, body: Buffer.concat(chunks).toString() };
      requests.push(received);
      const reply = await answer(received, requests.length - 1);
      answerWith(reply, response);
    });
  });
  server.on("connection", () => {
    sockets++;
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  onTestFinished(close);
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, requests, sockets: () => sockets, close };
}

/** A server that gives `replies` to the requests after the one that attaches the session, in order. */
export async function scriptedSession(
  replies: readonly Reply[],
  options: ClientOptions = {},
): Promise<{ session: Session; client: Client; requests: Received[]; server: Scripted }> {
  const requests: Received[] = [];
  const server = await serve((request) => {
    if (request.path === "/v1/rl/training-sessions/s-1") return SESSION;
    requests.push(request);
    return (
      replies[requests.length - 1] ??
      status(500, { error: { message: "the script has ended", type: "test" } })
    );
  });
  const client = testClient(server, options);
  return { session: await client.sessions.attach("s-1"), client, requests, server };
}

export function testClient(server: Scripted, options: ClientOptions = {}): Client {
  const client = new Client({
    apiKey: KEY,
    baseURL: server.url,
    pollIntervalMs: 20,
    maxRetries: 0,
    retryDelayMs: 5,
    ...options,
  });
  onTestFinished(() => client.close());
  return client;
}

/** What a promise rejects with. */
export async function rejection(promise: Promise<unknown>): Promise<Error & Record<string, unknown>> {
  try {
    await promise;
  } catch (error) {
    return error as Error & Record<string, unknown>;
  }
  throw new Error("expected a rejection, got a result");
}

/** One value where a sample is trained, 0 elsewhere. */
export const gradientsFor = (samples: readonly Sample[], value: number): Float32Array[] =>
  samples.map(({ weights }) => Float32Array.from(weights, (weight) => (weight === 0 ? 0 : value)));

/** Two samples whose first positions are prompt. */
export const SAMPLES = [
  { tokens: [5, 6, 7], targets: [6, 7, 8], weights: [0, 1, 1] },
  { tokens: [1, 2], targets: [2, 3], weights: [0, 0.5] },
];
