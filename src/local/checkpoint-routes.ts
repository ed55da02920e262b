// Endpoints of checkpoints: list, look, download.
import type { FastifyInstance } from "fastify";
import type { Checkpoint } from "./checkpoints.ts";
import { fields, oneOf, text } from "./fields.ts";
import { page } from "./listing.ts";
import { invalid } from "./problem.ts";
import type { Service } from "./service.ts";
import { storageURL } from "./storage-routes.ts";

const TYPES = ["CHECKPOINT_TYPE_TRAINING", "CHECKPOINT_TYPE_INFERENCE"] as const;
const VARIANTS = ["CHECKPOINT_VARIANT_MERGED", "CHECKPOINT_VARIANT_ADAPTER"] as const;

export function checkpointRoutes(server: FastifyInstance, { checkpoints, storage }: Service): void {
  interface ById {
    Params: { id: string };
  }

  server.get("/rl/checkpoints", async ({ query }) =>
    page(
      checkpoints.all().map((checkpoint) => ({ ...checkpoint, body: () => checkpointInfo(checkpoint) })),
      query,
      (asked) => {
        const model = asked.optional("base_model", text(256));
        const session = asked.optional("session_id", text());
        const type = asked.optional("type", oneOf(TYPES));
        return (checkpoint) =>
          (model === undefined || checkpoint.baseModel === model) &&
          (session === undefined || checkpoint.sessionId === session) &&
          (type === undefined || checkpoint.type === type);
      },
    ),
  );
  server.get<ById>("/rl/checkpoints/:id", async ({ params }) => checkpointInfo(checkpoints.get(params.id)));
  server.get<ById>("/rl/checkpoints/:id/download", async (request) => {
    const { id, type } = checkpoints.get(request.params.id);
    const variant = fields(request.query, "").required("variant", oneOf(VARIANTS));
    if (type !== "CHECKPOINT_TYPE_INFERENCE") {
      throw invalid("id", "expected an inference checkpoint, got a training checkpoint");
    }
    if (variant === "CHECKPOINT_VARIANT_ADAPTER") {
      throw invalid("variant", "the local trainer trains all weights, so there is no adapter");
    }
    const { path, size } = await checkpoints.file(id);
    const url = storageURL(request, storage.addressOfFile(path, size));
    return { data: [{ filename: "model.safetensors", size: String(size), url }] };
  });
}

function checkpointInfo({ id, type, baseModel, sessionId, step, createdAt }: Checkpoint): object {
  return {
    id,
    type,
    base_model: baseModel,
    session_id: sessionId,
    step: String(step),
    created_at: createdAt,
  };
}
