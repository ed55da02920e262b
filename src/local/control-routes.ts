// Endpoints of models, model resources and training sessions.
import type { FastifyInstance } from "fastify";
import { fields, oneOf, text, whole } from "./fields.ts";
import type { JsonBody } from "./json-body.ts";
import { byState, page } from "./listing.ts";
import { resourceRequest } from "./resources.ts";
import { type Service, sessionNames } from "./service.ts";
import type { TrainingSession } from "./session.ts";

interface ById {
  Params: { id: string };
  Body: JsonBody | undefined;
}

export function controlRoutes(server: FastifyInstance, service: Service): void {
  const readRequest = resourceRequest([service.modelName]);

  server.get("/rl/supported-models", async () => ({ data: service.supportedModels() }));

  server.post<{ Body: JsonBody | undefined }>("/rl/model-resources", async ({ body }) =>
    service.createResources(readRequest(body?.value, "")).body(),
  );
  server.post<{ Body: JsonBody | undefined }>("/rl/model-resources/estimate-cost", async ({ body }) => {
    readRequest(body?.value, "");
    return { currency: "USD", price_per_hour: 0 };
  });
  server.get("/rl/model-resources", async ({ query }) =>
    page(service.resources.all(), query, (asked) => byState(asked, "MODEL_RESOURCES_STATUS_")),
  );
  server.get<ById>("/rl/model-resources/:id", async ({ params }) => service.resources.get(params.id).body());
  server.post<ById>("/rl/model-resources/:id/stop", async ({ params, query }) => {
    const resources = service.resources.get(params.id);
    const force = fields(query, "").optional("force", oneOf(["true", "false"]));
    await service.stopResources(resources, force === "true");
    return resources.body();
  });
  server.post<ById>("/rl/model-resources/:id/extend-expiry", async ({ params, body }) => {
    // Local resources do not expire, so there is nothing to move.
    fields(body?.value, "").required("seconds", whole(1));
    return service.resources.get(params.id).body();
  });

  server.post<{ Body: JsonBody | undefined }>("/rl/training-sessions", async ({ body }) => {
    const session = await service.createSession(body?.value);
    return session.body();
  });
  server.get("/rl/training-sessions", async ({ query }) =>
    page(service.sessions.all(), query, (asked) => {
      const resources = asked.optional("model_resources_id", text());
      const inState = byState<TrainingSession>(asked, "TRAINING_SESSION_STATUS_");
      return (session) => inState(session) && (resources === undefined || session.resources.id === resources);
    }),
  );
  server.get<ById>("/rl/training-sessions/:id", async ({ params }) => service.sessions.get(params.id).body());
  server.patch<ById>("/rl/training-sessions/:id", async ({ params, body }) => {
    const session = service.sessions.get(params.id);
    const { displayName, metadata } = sessionNames(body?.value);
    session.update(displayName, metadata);
    return session.body();
  });
  server.post<ById>("/rl/training-sessions/:id/stop", async ({ params }) => {
    const session = service.sessions.get(params.id);
    const stopped = session.stop();
    if (session.status === "STOPPED") await stopped;
    return session.body();
  });
}
