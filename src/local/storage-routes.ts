// Endpoints of payloads, and the addresses behind which the storage itself stands.
import { createReadStream } from "node:fs";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { JsonBody } from "./json-body.ts";
import { Problem } from "./problem.ts";
import type { Service } from "./service.ts";
import type { Stored } from "./storage.ts";

/** Requests below it need no key: the address is the permission. */
export const STORAGE_PATH = "/storage/";

/** An absolute address, under the host by which the caller reached the trainer. */
export function storageURL(request: FastifyRequest, token: string): string {
  return `${request.protocol}://${request.headers.host}${STORAGE_PATH}${token}`;
}

export function storageRoutes(server: FastifyInstance, { storage, sessions }: Service): void {
  interface OfSession {
    Params: { session: string; payload: string };
  }

  server.post<OfSession>("/rl/training-sessions/:session/payloads/upload-url", async (request) => {
    const { id, token } = storage.createUpload(sessions.get(request.params.session).id);
    return { payload_id: id, upload_url: storageURL(request, token) };
  });
  server.post<OfSession>("/rl/training-sessions/:session/payloads/:payload/download-url", async (request) => {
    const { session, payload } = request.params;
    return { download_url: storageURL(request, storage.addressOf(sessions.get(session).id, payload)) };
  });

  interface ByToken {
    Params: { token: string };
    Body: JsonBody | undefined;
  }

  server.put<ByToken>(`${STORAGE_PATH}:token`, async ({ params, body, headers }, reply) => {
    refuseKey(headers.authorization);
    storage.upload(params.token, body?.bytes ?? Buffer.alloc(0));
    return reply.status(200).send();
  });
  server.get<ByToken>(`${STORAGE_PATH}:token`, async ({ params, headers }, reply) => {
    refuseKey(headers.authorization);
    return sendStored(reply, storage.download(params.token), headers.range);
  });
}

/** As real storages do: a request must bear one permission, and the trainer's key is not to be shown to them. */
function refuseKey(authorization: string | undefined): void {
  if (authorization === undefined) return;
  throw new Problem(400, "two_permissions", "Authorization: expected none beside a signed address");
}

function sendStored(reply: FastifyReply, stored: Stored, range: string | undefined): FastifyReply {
  const size = "bytes" in stored ? stored.bytes.length : stored.size;
  const [, first, last] = range?.match(/^bytes=(\d+)-(\d*)$/) ?? [];
  const from = first === undefined ? 0 : Number(first);
  const to = last ? Math.min(Number(last) + 1, size) : size;
  if (first !== undefined && from >= to) {
    throw new Problem(416, "range", `range: expected one within ${size} bytes, got ${range}`);
  }
  if (first !== undefined) {
    reply.status(206).header("content-range", `bytes ${from}-${to - 1}/${size}`);
  }
  reply.header("content-type", "application/octet-stream").header("content-length", to - from);
  if ("bytes" in stored) return reply.send(stored.bytes.subarray(from, to));
  return reply.send(createReadStream(stored.path, { start: from, end: Math.max(from, to - 1) }));
}
