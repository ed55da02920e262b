// A trainer that answers at once and computes nothing, so that the time of a step is the client's.
//
//   url          where it listens
//   last FILE    writes the body of the last custom pass into a file, and forgets it
//
// Run as `instant-server.ts THREADS OUTPUT_FILE [inline]`. Whatever the request, resources are ready, sessions run and
// operations are completed; samples may come in either wire format. A forward pass gives the members of OUTPUT_FILE,
// through the payload channel where they are large, unless told `inline`.
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { serve } from "../child.ts";

/** Larger results take the payload channel. @unit bytes */
const INLINE_BYTES = 524_288;
/** A body that stands in for an uploaded one is smaller. @unit bytes */
const SHORTENED_BYTES = 2 ** 22;
const RESULT = "result";

const [outputFile, inline] = process.argv.slice(3) as [string, string?];

const created = {
  created_at: "2026-01-01T00:00:00Z",
  updated_at: "2026-01-01T00:00:00Z",
  created_by: "bench",
};
const RESOURCES = {
  ...created,
  id: "resources",
  base_model: "instant",
  status: "MODEL_RESOURCES_STATUS_READY",
  status_details: {},
  compute_config: { num_generator_replicas: 0 },
  optimizer_config: { adam: {} },
  lora_enabled: true,
  inactive_timeout: 3600,
};
const SESSION = {
  ...created,
  id: "session",
  model_resources_id: RESOURCES.id,
  base_model: RESOURCES.base_model,
  status: "TRAINING_SESSION_STATUS_RUNNING",
  step: 0,
  metadata: {},
  inference_checkpoints: [],
  training_checkpoints: [],
  policy_state: {
    applied_weights_version: 0,
    target_weights_version: 0,
    trainer_step: 0,
    pending_publish: false,
  },
};

const completed = (output: string) =>
  Buffer.from(`{"id":"operation","status":"TRAINING_OPERATION_STATUS_COMPLETED","output":${output}}`);

/** The result of a forward pass, as it is downloaded and as the operation tells of it. */
const result = readFileSync(outputFile);
const scored =
  inline === "inline" || result.length <= INLINE_BYTES
    ? completed(`{"loss":0,"metrics":{},${result.toString("latin1", 1)}`)
    : completed(`{"loss":0,"metrics":{},"payload_id":"${RESULT}"}`);
const passed = completed("{}");

type Body = readonly Buffer[];

/** Bodies that were uploaded and that no operation has named yet. */
const uploads = new Map<string, Body>();
let last: Body = [];
let steps = 0;
let payloads = 0;

/** The whole body of an operation: what it has uploaded, where the body itself only stands in for that. */
function wholeBody(body: Body): Body {
  if (uploads.size === 0 || sizeOf(body) > SHORTENED_BYTES) return body;
  const id = /"payload_id":\s*"([^"]*)"/.exec(Buffer.concat(body).toString("latin1"))?.[1] ?? "";
  const uploaded = uploads.get(id);
  uploads.delete(id);
  return uploaded ?? body;
}

const sizeOf = (body: Body) => body.reduce((sum, { length }) => sum + length, 0);

/** What an operation answers with. */
const OPERATIONS: Readonly<Record<string, (body: Body) => Buffer>> = {
  "forward-backward": (body) => {
    wholeBody(body);
    return scored;
  },
  "custom-forward-backward": (body) => {
    last = wholeBody(body);
    return passed;
  },
  "optim-step": () => completed(`{"step":${++steps}}`),
};

type Answer = Body | object | undefined;

/** The answer of the API; undefined where it knows no such path. */
function answer(_method: string, path: string, body: Body): Answer {
  if (path.endsWith("/upload-url")) {
    const id = `payload-${++payloads}`;
    return { payload_id: id, upload_url: `${addressOf(storage)}/${id}` };
  }
  if (path.endsWith("/download-url")) return { download_url: `${addressOf(storage)}/${RESULT}` };
  const operation = OPERATIONS[/\/operations\/([a-z-]+)$/.exec(path)?.[1] ?? ""];
  if (operation !== undefined) return [operation(body)];
  if (path.includes("/operations/")) return undefined;
  if (path.startsWith("/rl/model-resources")) return RESOURCES;
  if (path.startsWith("/rl/training-sessions")) return SESSION;
  return undefined;
}

function stored(method: string, path: string, body: Body): Answer {
  if (method === "GET") return path === `/${RESULT}` ? [result] : undefined;
  uploads.set(path.slice(1), body);
  return [];
}

/** A server on loopback that collects bodies before it answers. */
async function listen(answer: (method: string, path: string, body: Body) => Answer): Promise<Server> {
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const path = request.url!.replace(/\?.*/, "").replace(/^\/v1(?=\/)/, "");
      const found = answer(request.method!, path, chunks);
      const body = Array.isArray(found) ? (found as Body) : [Buffer.from(JSON.stringify(found ?? {}))];
      response.writeHead(found === undefined ? 404 : 200, {
        "content-type": "application/json",
        "content-length": sizeOf(body),
      });
      for (const chunk of body) response.write(chunk);
      response.end();
    });
  });
  server.keepAliveTimeout = 600_000;
  server.requestTimeout = 0;
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  return server;
}

const addressOf = (server: Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

const storage = await listen(stored);
const api = await listen(answer);
await serve("instant server", {
  url: () => ({ url: addressOf(api) }),
  last: (file) => {
    writeFileSync(file, Buffer.concat(last));
    last = [];
    return {};
  },
});
process.exit();
