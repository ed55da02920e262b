// Endpoints of the operations: submitted with a key, queued, polled.
import { setTimeout as sleep } from "node:timers/promises";
import type { FastifyInstance } from "fastify";
import { fields, flag, oneOf, type Read, text } from "./fields.ts";
import type { JsonBody } from "./json-body.ts";
import { loss } from "./losses.ts";
import { OPERATION_KINDS, type OperationKind, type Work } from "./operation.ts";
import { optimStep } from "./optimizer.ts";
import type { Settings } from "./options.ts";
import { operationRequest, withResultApart } from "./payloads.ts";
import { invalid, missing, Problem } from "./problem.ts";
import { CUSTOM_ROWS, gradients, samples } from "./samples.ts";
import { sampling } from "./sampling.ts";
import type { Service } from "./service.ts";
import type { TrainingSession } from "./session.ts";

/** Checks a body and says what is to be done. */
type Plan = (body: unknown, session: TrainingSession, service: Service) => Work;

const PLANS: Readonly<Record<OperationKind, Plan>> = {
  "forward-backward": (value, session, { config }) => {
    const body = fields(value, "");
    const { loss: built, rows } = body.required("loss", loss);
    const { batch, inputs } = body.required("samples", samples(config, rows));
    return session.forwardBackward(batch, built, inputs, {
      forwardOnly: body.optional("forward_only", flag) ?? false,
      outputs: body.optional("return_loss_fn_outputs", flag) ?? false,
    });
  },
  "custom-forward-backward": (value, session, { config }) => {
    const body = fields(value, "");
    const { batch } = body.required("samples", samples(config, CUSTOM_ROWS));
    return session.customForwardBackward(batch, body.required("gradients", gradients(batch)));
  },
  "optim-step": (value, session) => session.optimStep(optimStep(value, "")),
  "weights-sync": (value, session) => {
    // Operations run in order, so that no rollout is ever in flight: the three ways come to the same.
    fields(value, "").required(
      "weight_sync_type",
      oneOf([
        "WEIGHT_SYNC_TYPE_SYNCHRONOUS",
        "WEIGHT_SYNC_TYPE_BACKGROUND_PUBLISH",
        "WEIGHT_SYNC_TYPE_PIPELINE",
      ]),
    );
    return session.weightsSync();
  },
  sample: (value, session, { config, endOfText }) => {
    if (!session.resources.hasGenerator) {
      throw invalid("", "the model resource has no generator: num_generator_replicas is 0");
    }
    return session.sample(sampling(config, endOfText)(value, ""));
  },
  "inference-checkpoint": (_, session) => session.checkpoint(false),
  "training-checkpoint": (_, session) => session.checkpoint(true),
};

interface Submission {
  Params: { session: string };
  Body: JsonBody | undefined;
}

interface Poll {
  Params: { session: string; operation: string };
}

export function operationRoutes(
  server: FastifyInstance,
  service: Service,
  { pollHoldMs, resultPayloadBytes }: Pick<Settings, "pollHoldMs" | "resultPayloadBytes">,
): void {
  for (const kind of OPERATION_KINDS) {
    const path = `/rl/training-sessions/:session/operations/${kind}`;

    server.post<Submission>(path, async ({ params, headers, body }) => {
      const session = service.sessions.get(params.session);
      const key = idempotencyKey(headers["idempotency-key"]);
      const { value, digest } = operationRequest(kind, body, session.id, service.storage);
      const known = session.operations.repeated(key, digest);
      if (known !== undefined) return known.body();
      const work = PLANS[kind](value, session, service);
      const apart = withResultApart(kind, work, session.id, service.storage, resultPayloadBytes);
      return session.operations.add(kind, key, digest, apart).body();
    });

    server.get<Poll>(`${path}/:operation`, async ({ params }) => {
      const operation = service.sessions.get(params.session).operations.get(kind, params.operation);
      if (operation === undefined) throw missing(`${kind} operation`, params.operation);
      if (!operation.isFinished) await waitFor(operation.finished, pollHoldMs);
      return operation.body();
    });
  }
}

function idempotencyKey(header: string | string[] | undefined): string {
  const read: Read<string> = text(512);
  if (typeof header === "string" && header !== "") return read(header, "Idempotency-Key");
  throw new Problem(
    400,
    "idempotency_key_missing",
    "Idempotency-Key: expected a key, the same for every repeat of this request",
    "Idempotency-Key",
  );
}

async function waitFor(finished: Promise<void>, milliseconds: number): Promise<void> {
  const timer = new AbortController();
  const late = sleep(milliseconds, undefined, { signal: timer.signal }).catch(() => undefined);
  await Promise.race([finished, late]);
  timer.abort();
}
