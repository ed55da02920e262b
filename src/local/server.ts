// The HTTP side: keys, bodies, errors; what stands behind the paths is in the routes.
import { createHash, timingSafeEqual } from "node:crypto";
import fastify, { type FastifyError, type FastifyInstance, type FastifyReply } from "fastify";
import { checkpointRoutes } from "./checkpoint-routes.ts";
import { controlRoutes } from "./control-routes.ts";
import { type FaultPlan, injectFaults } from "./faults.ts";
import { jsonBody } from "./json-body.ts";
import { operationRoutes } from "./operation-routes.ts";
import type { Settings } from "./options.ts";
import { Problem } from "./problem.ts";
import type { Service } from "./service.ts";
import { STORAGE_PATH, storageRoutes } from "./storage-routes.ts";

const digest = (text: string | Buffer) => createHash("sha256").update(text).digest();

/** A server that is not listening yet. */
export function createServer(
  service: Service,
  settings: Pick<Settings, "bodyLimitBytes" | "pollHoldMs" | "resultPayloadBytes">,
  apiKey: string,
  faults?: FaultPlan,
): FastifyInstance {
  const server = fastify({
    bodyLimit: settings.bodyLimitBytes,
    forceCloseConnections: true,
    requestTimeout: 300_000,
    routerOptions: { maxParamLength: 200 },
    // Clients differ on whether their base URL ends in /v1.
    rewriteUrl: ({ url = "/" }) => url.replace(/^\/v1(?=\/)/, ""),
    frameworkErrors: (error, _, reply) => answerError(error, reply),
  });

  const expected = digest(`Bearer ${apiKey}`);
  server.addHook("onRequest", async ({ headers, url }) => {
    if (url.startsWith(STORAGE_PATH)) return;
    // Digests have equal lengths, so that the comparison takes the same time for every key.
    if (timingSafeEqual(digest(headers.authorization ?? ""), expected)) return;
    throw new Problem(401, "unauthorized", "Authorization: expected the trainer's key as a bearer token");
  });

  server.removeAllContentTypeParsers();
  server.addContentTypeParser("*", { parseAs: "buffer" }, async (_: unknown, bytes: Buffer) =>
    jsonBody(bytes),
  );

  server.setNotFoundHandler(({ method, url }) => {
    throw new Problem(404, "not_found", `there is no ${method} ${url.slice(0, 200)}`);
  });
  server.setErrorHandler((error: FastifyError, _, reply) => answerError(error, reply));

  if (faults !== undefined) injectFaults(server, faults);
  controlRoutes(server, service);
  checkpointRoutes(server, service);
  operationRoutes(server, service, settings);
  storageRoutes(server, service);
  return server;
}

function answerError(error: FastifyError, reply: FastifyReply): FastifyReply {
  const problem = toProblem(error);
  // The service's client would repeat what is in conflict with something else than a lock.
  if (problem.status === 409) reply.header("x-should-retry", "false");
  return reply.status(problem.status).send(problem.body());
}

function toProblem(error: FastifyError): Problem {
  if (error instanceof Problem) return error;
  const status = error.statusCode ?? 500;
  if (status === 413) return new Problem(413, "body_too_large", "body: larger than the trainer's limit");
  if (status < 500) return new Problem(status, "bad_request", error.message);
  return new Problem(500, "internal_error", `internal: ${error.message}`);
}
